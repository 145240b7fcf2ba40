package outputs

import (
	"encoding/json"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// ReadID is the id of the tool that reads whole results. It can be called in every run, unless policy denies it by a rule: an allow list that
// does not mention it is about other tools.
const ReadID contracts.ToolID = "platform:core:read_result"

// Tool returns the tool that reads whole results, as a source lists it.
func Tool() contracts.Tool {
	yes, no := true, false
	return contracts.Tool{
		Name: "read_result", Title: "Read on in a large result",
		Description: "Reads, page by page, a result of this run that was cut because of its size. The cut result names its handle and where to go on. " +
			"A page has next, the offset of the page after it, until there is none.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{` +
			`"handle":{"type":"string","description":"Of the cut result."},` +
			`"path":{"type":"string","description":"JSON Pointer into the whole result, such as /structuredContent/items. Default: where the result was cut first."},` +
			`"offset":{"type":"integer","minimum":0,"description":"Items of an array, members of an object or characters of a text to pass over. Default 0, or without path: where it was cut."},` +
			`"limit":{"type":"integer","minimum":1,"description":"Most items, members or characters of the page. Default: as many as it can hold."},` +
			`"as":{"type":"string","enum":["json"],"description":"Gives the value as pieces of its JSON text, whatever it is; offset and limit then count bytes."}},` +
			`"required":["handle"],"additionalProperties":false}`),
		OutputSchema: json.RawMessage(`{"type":"object","properties":{` +
			`"handle":{"type":"string"},"path":{"type":"string"},` +
			`"type":{"type":"string","enum":["text","base64","items","members","value","json"]},` +
			`"offset":{"type":"integer"},"total":{"type":"integer"},"next":{"type":"integer","description":"Missing on the last page."},` +
			`"text":{"type":"string","description":"Of the types text, base64 and json."},` +
			`"items":{"type":"array"},"members":{"type":"object"},"value":{},` +
			`"large":{"type":"object","description":"The item or member at offset, which no page can hold: read it by its own path.",` +
			`"properties":{"path":{"type":"string"},"type":{"type":"string"},"bytes":{"type":"integer"}},"required":["type","bytes"]}},` +
			`"required":["handle","path","type","offset","total"]}`),
		Annotations: &contracts.Annotations{ReadOnlyHint: &yes, DestructiveHint: &no, IdempotentHint: &yes, OpenWorldHint: &no},
	}
}
