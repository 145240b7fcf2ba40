package embedded

// field is a part of a tool's definition with a weight of its own.
type field uint8

const (
	fieldName field = iota
	fieldTitle
	fieldDescription
	fieldOwner        // name and title of the source
	fieldInstructions // of the source
	fieldParam        // names of parameters
	fieldParamText    // descriptions and values of parameters
	numFields
)

// traits are how a field counts in BM25F.
type traits struct {
	weight float64
	// length is the number of words that the field has in an average tool. It
	// is a constant, so that the tools a run may not see cannot influence the
	// scores of those it may.
	length float64
	slope  float64 // how far longer texts count less: 0 not at all, 1 in proportion
}

var fieldTraits = [numFields]traits{
	fieldName:         {2.5, 3, 0.5},
	fieldTitle:        {1, 3, 0.5},
	fieldDescription:  {1, 25, 0.65},
	fieldOwner:        {1, 2, 0.5},
	fieldInstructions: {0.4, 40, 0.75},
	fieldParam:        {0.4, 8, 0.75},
	fieldParamText:    {0.2, 60, 0.75},
}

// saturation is the weighted frequency that scores half of the most.
const saturation = 1.0

// impact is what a term scores in a tool, as a part of the most that it could:
// fullImpact of it.
type impact uint16

const fullImpact = 1<<16 - 1

// impactOf returns the impact of a term by its weighted frequency in a tool:
// the one saturation of BM25F. It is never 0.
func impactOf(frequency float64) impact {
	return max(1, impact(frequency/(saturation+frequency)*fullImpact))
}

// fieldSet is a set of fields, a bit each.
type fieldSet uint8

func (s fieldSet) has(f field) bool { return s&(1<<f) != 0 }
