// Package embedded is Toolcrib's own index of tools: it finds, in the memory of
// one process, the tools of a run's catalogue that fit what a model or a person
// asks for.
//
// A [Segment] is the immutable index of one listing and is shared by all runs
// that hold the listing. A [View] puts the segments of one catalogue together,
// without the tools that the run may not see: nothing of a hidden tool has any
// influence on what a view answers.
//
// Ranking is BM25F over the names, titles, descriptions, owners and parameters
// of tools, with a few corrections for requests to tools: identifiers are taken
// apart, misspelt words corrected, literal arguments of the request discounted,
// tools preferred that do what the verb of the request says. A query that is
// the name of a tool finds that tool first. A query that nothing fits is
// answered with nothing and the ids of what comes nearest.
//
// The package knows nothing of tenants, policies, runs or storage, keeps no
// state beyond what it is given, and does not check limits: that is its
// caller's part.
package embedded
