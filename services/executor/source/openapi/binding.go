package openapi

// A binding says how a tool is called. It is kept with the tool, so that whoever has the tool can
// call it without the document, and so that its hash covers where the call goes.
type binding struct {
	Method string `json:"method"`
	// Server is the absolute URL that the document gives; the configuration may have another.
	Server string  `json:"server,omitempty"`
	Path   string  `json:"path"` // with {names}
	Params []param `json:"params,omitempty"`
	Body   *body   `json:"body,omitempty"`
	// Auth are the schemes whose credentials go along, together.
	Auth []scheme `json:"auth,omitempty"`
	// Accept are the media types of good answers.
	Accept []string `json:"accept,omitempty"`
	// Headers are those of an answer that are told.
	Headers []string `json:"headers,omitempty"`
}

// A param is one parameter: where it goes and how it is written.
type param struct {
	Arg      string `json:"arg"`  // its property of the arguments
	Name     string `json:"name"` // on the wire
	In       string `json:"in"`   // path, query, header or cookie
	Style    string `json:"style,omitempty"`
	Explode  bool   `json:"explode,omitempty"`
	Reserved bool   `json:"reserved,omitempty"` // reserved characters stay as they are
	JSON     bool   `json:"json,omitempty"`     // the value is written as JSON, Style means nothing
}

// A body is how the body of a request is made.
type body struct {
	Media    string `json:"media"` // its Content-Type; may be a range such as image/*
	Kind     kind   `json:"kind"`
	Required bool   `json:"required,omitempty"`
	// Fields are its properties where each is an argument; else the argument "body" is the whole.
	Fields []field `json:"fields,omitempty"`
	// Parts says of properties how they are written in a form, where it is not in the way that their value asks for.
	Parts map[string]part `json:"parts,omitempty"`
}

// A kind is the form of a body.
type kind string

const (
	kindJSON      kind = "json"
	kindForm      kind = "form"
	kindMultipart kind = "multipart"
	kindText      kind = "text"
	kindFile      kind = "file"
)

// A field is a property of a body that is an argument of its own.
type field struct {
	Arg  string `json:"arg"`
	Name string `json:"name"`
}

// A part is how one property of a form is written.
type part struct {
	Style    string `json:"style,omitempty"`
	Explode  bool   `json:"explode,omitempty"`
	Reserved bool   `json:"reserved,omitempty"`
	Media    string `json:"media,omitempty"` // of a part of multipart
	File     bool   `json:"file,omitempty"`  // its value is a file
}

// A scheme is a way to show a credential.
type scheme struct {
	Name string `json:"name"` // in the document and in the configuration
	Kind string `json:"kind"` // apiKey, basic or bearer; any other is the word before the credential in Authorization
	In   string `json:"in,omitempty"`
	Key  string `json:"key,omitempty"`
}
