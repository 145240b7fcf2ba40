package planner

import (
	"github.com/toolcrib/toolcrib/internal/core/tokens"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// measure returns what the surface costs the model. Counting the tokens of thousands of
// tools takes a while, so the count of a surface is kept.
func (s *Service) measure(t contracts.TenantID, sh *shown) (contracts.Seen, error) {
	tools, err := compact(sh.Tools)
	if err != nil {
		return contracts.Seen{}, err
	}
	seen := contracts.Seen{Tools: len(sh.Tools), Schemas: sh.schemas, ToolBytes: len(tools), PromptBytes: len(sh.Prompt)}
	key := string(t) + "/" + string(contracts.HashOf(tools)) + "/" + string(contracts.HashOf([]byte(sh.Prompt)))
	n, ok := s.counts.Get(key)
	if !ok {
		n = tokens.Count(string(tools)) + tokens.Count(sh.Prompt)
		s.counts.Add(key, n)
	}
	seen.Tokens = n
	return seen, nil
}
