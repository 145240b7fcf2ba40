package policy

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/ext"
	"cel.dev/cel-go/interpreter"
)

// What conditions are held to. Cost is CEL's own measure, about 0.2 µs each.
const (
	longestCondition = 2048       // bytes
	largestRegex     = 500        // instructions of the compiled pattern
	mostMatching     = 2_000_000  // instructions of a pattern times bytes of the text, about 30 ms
	mostEstimated    = 10_000_000 // worst cost by the estimate, with the sizes of estimator
	mostCost         = 100_000    // cost of one condition in one decision
)

// The variables of conditions. Qualified names are variables of their own, so that a
// misspelt one is found when a policy is compiled.
const (
	varID, varSource, varName, varHash, varTrusted                = "tool.id", "tool.source", "tool.name", "tool.hash", "tool.trusted"
	varReadOnly, varDestructive                                   = "tool.annotations.readOnly", "tool.annotations.destructive"
	varIdempotent, varOpenWorld                                   = "tool.annotations.idempotent", "tool.annotations.openWorld"
	varAgent, varProfile, varSession, varSandbox                  = "run.agent", "run.profile", "run.session", "run.sandbox"
	varChannel, varRuntime, varPrincipal, varRunLabels, varOfArgs = "run.channel", "run.runtime", "run.principal", "run.labels", "args"
)

// known is what the variables are, for the errors of conditions.
const known = "known are " +
	varID + ", " + varSource + ", " + varName + ", " + varHash + ", " + varTrusted + ", " + varReadOnly + ", " + varDestructive + ", " + varIdempotent + ", " + varOpenWorld + ", " +
	varAgent + ", " + varProfile + ", " + varSession + ", " + varSandbox + ", " + varChannel + ", " + varRuntime + ", " + varPrincipal + ", " + varRunLabels + " and " + varOfArgs

// environment is the language of conditions: standard CEL with its macros, and some functions over strings.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	options := []cel.EnvOption{
		ext.Strings(ext.StringsVersion(4)),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.ParserExpressionSizeLimit(longestCondition),
		cel.ParserRecursionLimit(64),
		cel.ExpressionNodeLimit(2000),
		cel.RegexProgramSizeLimit(largestRegex),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateDurationLiterals()),
		cel.Variable(varOfArgs, cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable(varRunLabels, cel.MapType(cel.StringType, cel.StringType)),
	}
	for _, name := range []string{varID, varSource, varName, varHash, varAgent, varProfile, varSession, varSandbox, varChannel, varRuntime, varPrincipal} {
		options = append(options, cel.Variable(name, cel.StringType))
	}
	for _, name := range []string{varTrusted, varReadOnly, varDestructive, varIdempotent, varOpenWorld} {
		options = append(options, cel.Variable(name, cel.BoolType))
	}
	return cel.NewEnv(options...)
})

// A condition is a compiled condition. It never changes and is safe for concurrent use.
type condition struct {
	text    string
	program cel.Program
	// readsArgs says whether the arguments stand in it anywhere: then it can be decided at the call only.
	readsArgs bool
	// readsRun says whether anything of the run stands in it: then runs may see different tools by the same layers.
	readsRun bool
	// aims are globs over tool ids of which one matches wherever the condition can hold; nil where nothing is known.
	aims []string
}

// compileCondition compiles a condition. Its error says where in the text it is wrong.
func compileCondition(text string) (*condition, error) {
	if len(text) > longestCondition {
		return nil, fmt.Errorf("it has %d bytes; want at most %d", len(text), longestCondition)
	}
	env, err := environment()
	if err != nil {
		return nil, err
	}
	parsed, issues := env.Parse(text)
	if err := firstIssue(issues, ""); err != nil {
		return nil, err
	}
	checked, issues := env.Check(parsed)
	if err := firstIssue(issues, "; "+known); err != nil {
		return nil, err
	}
	if t := checked.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("it is of type %s; want a condition, true or false", t)
	}
	tree := checked.NativeRep()
	u := usesOf(tree)
	if u.problem != "" {
		return nil, fmt.Errorf("%s: %s", u.at, u.problem)
	}
	worst, err := env.EstimateCost(checked, estimator{})
	if err != nil {
		return nil, fmt.Errorf("estimate its cost: %w", err)
	}
	if worst.Max > mostEstimated {
		return nil, errors.New("it can take too long; want fewer loops (all, exists, filter, map) in each other, or less in the inner one")
	}
	c := &condition{text: text, readsArgs: u.args, readsRun: u.run, aims: aimsOf(tree.Expr())}
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize), cel.OptimizeRegex(bounded(overloads.Matches), bounded(overloads.MatchesString))}
	if u.unbounded {
		deep := func(args []ref.Val, result ref.Val) *uint64 { return estimator{}.CallCost("", "", args, result) }
		options = append(options, cel.CostLimit(mostCost), cel.CostTracking(estimator{}), cel.CostTrackerOptions(
			cost.OverloadTracker(overloads.Equals, deep), cost.OverloadTracker(overloads.NotEquals, deep), cost.OverloadTracker(overloads.InList, deep)))
	}
	if c.program, err = env.Program(checked, options...); err != nil {
		return nil, fmt.Errorf("it cannot be planned: %w", err)
	}
	return c, nil
}

// firstIssue returns the first of the issues, with its place and what is to be said besides.
func firstIssue(issues *cel.Issues, besides string) error {
	if issues == nil || len(issues.Errors()) == 0 {
		return nil
	}
	first := issues.Errors()[0]
	if first.Location.Line() < 1 {
		return errors.New(oneLine(first.Message) + besides)
	}
	return fmt.Errorf("%d:%d: %s%s", first.Location.Line(), first.Location.Column()+1, oneLine(first.Message), besides)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// uses are what a condition uses, as far as it matters here.
type uses struct {
	args, run bool
	// unbounded says whether the size of what it reads, or a loop, makes its cost depend on more than its text.
	unbounded   bool
	at, problem string // of the first call that is not allowed
}

// ofRun are the variables that tell of the run.
var ofRun = [...]string{varAgent, varProfile, varSession, varSandbox, varChannel, varRuntime, varPrincipal, varRunLabels}

// withheld are functions of the library that a few bytes of text can make arbitrarily expensive.
var withheld = [...]string{"replace", "join", "format", "reverse", "indexOf", "lastIndexOf", "strings.quote"}

func usesOf(tree *ast.AST) (u uses) {
	for _, r := range tree.ReferenceMap() {
		u.args = u.args || r.Name == varOfArgs
		u.run = u.run || slices.Contains(ofRun[:], r.Name)
		u.unbounded = u.unbounded || r.Name == varRunLabels
	}
	u.unbounded = u.unbounded || u.args
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.ComprehensionKind:
			u.unbounded = true
		case ast.CallKind:
			call := e.AsCall()
			switch name := call.FunctionName(); {
			case name == operators.Add:
				u.unbounded = true
			case name == overloads.Matches && call.Args()[len(call.Args())-1].Kind() != ast.LiteralKind:
				u.refuse(tree, e, "the pattern of matches is no literal; want a text in quotes")
			case slices.Contains(withheld[:], name):
				u.refuse(tree, e, "there is no function "+name+" in conditions; of the functions over strings there are contains, startsWith, endsWith, matches, size, lowerAscii, upperAscii, trim, split, substring and charAt")
			}
		}
	}))
	return u
}

func (u *uses) refuse(tree *ast.AST, e ast.Expr, problem string) {
	if u.problem == "" {
		at := tree.SourceInfo().GetStartLocation(e.ID())
		u.at, u.problem = fmt.Sprintf("%d:%d", at.Line(), at.Column()+1), problem
	}
}

// An estimator assumes sizes of what a condition reads, so that loops in loops are told
// from what is usual when it is compiled, and counts real ones when it is evaluated.
type estimator struct{}

// EstimateSize returns the assumed size of a value.
func (estimator) EstimateSize(n cost.AstNode) *cost.SizeEstimate {
	size := cost.RangedSizeEstimate(0, 256)
	if n.Type().Kind() == types.StringKind {
		size = cost.RangedSizeEstimate(0, 4096)
	}
	return &size
}

// EstimateCallCost leaves the cost of calls to CEL.
func (estimator) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}

// CallCost returns what a call really cost that CEL counts as 1, whatever its operands hold: one whose overload is
// found when it is made, and one that compares in depth.
func (estimator) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	if overload != "" || function == operators.Index {
		return nil
	}
	c := weight(result, 0)
	for _, a := range args {
		c = weight(a, c)
	}
	return &c
}

// weight adds to sum what reading v whole costs. It stops where that is more than a condition may cost.
func weight(v ref.Val, sum uint64) uint64 {
	sum++
	switch v := v.(type) {
	case types.String:
		return sum + uint64(len(v))/10
	case types.Bytes:
		return sum + uint64(len(v))/10
	case traits.Lister:
		for i := v.Iterator(); sum <= mostCost && i.HasNext() == types.True; {
			sum = weight(i.Next(), sum)
		}
	case traits.Mapper:
		for i := v.Iterator(); sum <= mostCost && i.HasNext() == types.True; {
			k := i.Next()
			sum = weight(v.Get(k), weight(k, sum))
		}
	}
	return sum
}

// bounded makes one form of matches refuse texts that would take the pattern too long: its cost by CEL's
// measure knows the length of the pattern, not what it is compiled to, and is only known afterwards.
func bounded(overload string) *interpreter.RegexOptimization {
	return &interpreter.RegexOptimization{
		Function: overloads.Matches, OverloadID: overload, RegexIndex: 1,
		Factory: func(call interpreter.InterpretableCall, pattern string) (interpreter.InterpretableCall, error) {
			compiled, err := regexp.Compile(pattern)
			if err != nil {
				return nil, err
			}
			size, err := types.RegexProgramSize(pattern)
			if err != nil {
				return nil, err
			}
			return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(values ...ref.Val) ref.Val {
				text, ok := values[0].(types.String)
				if !ok {
					return types.MaybeNoSuchOverloadErr(values[0])
				}
				if len(text)*size > mostMatching {
					return types.NewErrWithNodeID(call.ID(), "the text is too long to be matched with this pattern")
				}
				return types.Bool(compiled.MatchString(string(text)))
			}), nil
		},
	}
}

// place says where in the condition err arose, in the words of the condition only: the text of err may hold arguments.
func (c *condition) place(err error) string {
	whole := fmt.Sprintf("%q cannot be evaluated", clip(c.text))
	e, ok := errors.AsType[*types.Err](err)
	env, noEnv := environment()
	if !ok || noEnv != nil {
		return whole
	}
	parsed, issues := env.Parse(c.text)
	if issues.Err() != nil {
		return whole
	}
	at := parsed.NativeRep().SourceInfo().GetStartLocation(e.NodeID())
	if at.Line() < 1 {
		return whole
	}
	return fmt.Sprintf("%s at %d:%d", whole, at.Line(), at.Column()+1)
}
