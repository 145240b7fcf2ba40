package workshop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image/png"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// exposed maps "area/tool" to the name in a server of all areas.
func exposed() map[string]string {
	areas := allAreas("", "")
	names := exposedNames(areas)
	m := map[string]string{}
	for _, a := range areas {
		for i, t := range a.tools {
			m[a.name+"/"+t.name] = names[a.name][i]
		}
	}
	return m
}

func TestListing(t *testing.T) {
	tools := listed(t, inMemory(t, Config{}))
	if len(tools) < 60 {
		t.Errorf("the server lists %d tools, want 60 at least", len(tools))
	}
	if all := exposed(); len(all) != len(tools) {
		t.Errorf("the server lists %d tools, its areas declare %d", len(tools), len(all))
	}
	outputs := 0
	for name, tool := range tools {
		if !regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`).MatchString(name) {
			t.Errorf("tool name %q is not usable", name)
		}
		if tool.Description == "" || tool.Title == "" && (tool.Annotations == nil || tool.Annotations.Title == "") {
			t.Errorf("tool %s has no description or no title", name)
		}
		if tool.OutputSchema != nil {
			outputs++
		}
	}
	if outputs < len(tools)*4/10 || outputs > len(tools)*6/10 {
		t.Errorf("%d of %d tools have an output schema, want about half", outputs, len(tools))
	}
}

// TestOddities holds the listing to what it is for: showing what real
// servers show.
func TestOddities(t *testing.T) {
	tools := listed(t, inMemory(t, Config{}))
	var names, inputs, outputs []string
	long, short, alwaysLoad, scripts := 0, 0, 0, map[string]int{}
	for name, tool := range tools {
		names = append(names, name)
		in, _ := json.Marshal(tool.InputSchema)
		inputs = append(inputs, string(in))
		out, _ := json.Marshal(tool.OutputSchema)
		outputs = append(outputs, string(out))
		switch n := utf8.RuneCountInString(tool.Description); {
		case n > 2048:
			long++
			if i := strings.Index(tool.Description, "kayak"); utf8.RuneCountInString(tool.Description[:max(i, 0)]) < 2048 {
				t.Errorf("the word kayak stands at byte %d of the long description, want it after 2048 characters", i)
			}
		case len(strings.Fields(tool.Description)) == 2:
			short++
		}
		if tool.Meta["anthropic/alwaysLoad"] == true {
			alwaysLoad++
		}
		for script, re := range map[string]string{"vi": "[ạếằộữ]", "zh": `\p{Han}{4}`, "de": "ä.*ü|ü.*ä|für|wählt"} {
			if regexp.MustCompile(re).MatchString(tool.Description) {
				scripts[script]++
			}
		}
	}
	if long != 1 || short != 1 || alwaysLoad != 1 {
		t.Errorf("long, two-word and always loaded tools = %d, %d, %d, want 1 of each", long, short, alwaysLoad)
	}
	for _, script := range []string{"vi", "zh", "de"} {
		if scripts[script] == 0 {
			t.Errorf("no description in language %s", script)
		}
	}
	for what, re := range map[string]string{
		"camelCase": `^[a-z]+[A-Z]`, "snake_case": `^[a-z]+_[a-z]+$`, "kebab-case": `^[a-z]+-[a-z]+$`, "dotted": `^[a-z]+\.[a-z]+`,
	} {
		demand(t, "names", what, re, names)
	}
	for what, re := range map[string]string{
		"anyOf": `"anyOf":`, "oneOf": `"oneOf":`, "oneOf at the root": `^\{.*"oneOf":\[\{"required"`, "allOf": `"allOf":`, "not": `"not":`, "if": `"if":`,
		"type list": `"type":\["string","null"\]`, "null branch": `\{"type":"null"\}`, "nullable": `"nullable":true`,
		"$defs": `"\$ref":"#/\$defs/`, "definitions": `"\$ref":"#/definitions/`, "$ref into properties": `"\$ref":"#/properties/`,
		"recursive $ref": `"\$defs":\{"node":\{.*"\$ref":"#/\$defs/node"`,
		"enum":           `"enum":`, "enum with null": `"enum":\[[^]]*null\]`, "const": `"const":`, "default": `"default":`, "format": `"format":"date-time"`, "pattern": `"pattern":`,
		"draft-07": `"\$schema":"http://json-schema.org/draft-07/schema#"`, "2020-12": `"\$schema":"https://json-schema.org/draft/2020-12/schema"`,
		"no parameters, no properties": `^\{"type":"object"\}$`, "no parameters, closed": `^\{"additionalProperties":false,"properties":\{\},"type":"object"\}$`,
		"nothing required, said so": `"required":\[\]`, "empty additionalProperties": `"additionalProperties":\{\}`,
		"four nested required": `"required":\["traveller","itinerary","payment","contact"\]`,
		"prefixItems":          `"prefixItems":`, "propertyNames": `"propertyNames":`, "dependentRequired": `"dependentRequired":`,
		"exclusiveMinimum": `"exclusiveMinimum":`, "vendor keyword": `"x-enumNames":`, "optional keyword": `"optional":`, "non-ASCII enum": `"Đà Nẵng"`,
	} {
		demand(t, "input schemas", what, re, inputs)
	}
	for what, re := range map[string]string{"draft-07": `draft-07`, "recursive": `"entry":\{.*"#/\$defs/entry"`, "non-ASCII names": `"生肖":`} {
		demand(t, "output schemas", what, re, outputs)
	}
}

func demand(t *testing.T, where, what, re string, texts []string) {
	t.Helper()
	for _, s := range texts {
		if regexp.MustCompile(re).MatchString(s) {
			return
		}
	}
	t.Errorf("%s: nothing shows %s (%s)", where, what, re)
}

func TestSamples(t *testing.T) {
	cs := inMemory(t, Config{})
	tools := listed(t, cs)
	names := exposed()
	unsampled := exposed()
	for _, s := range samples() {
		key := s.area + "/" + s.tool
		delete(unsampled, key)
		t.Run(key, func(t *testing.T) {
			tool := tools[names[key]]
			if tool == nil {
				t.Fatalf("tool %q is not listed", names[key])
			}
			validate(t, "arguments", tool.InputSchema, []byte(orEmpty(s.args)))
			res := called(t, cs, tool.Name, s.args)
			if got := text(res); res.IsError != s.fails || !strings.Contains(got, s.want) {
				t.Fatalf("%s(%s) = %s, isError %t; want %q in it, isError %t", tool.Name, s.args, got, res.IsError, s.want, s.fails)
			}
			if tool.OutputSchema == nil {
				return
			}
			structured, err := json.Marshal(res.StructuredContent)
			if err != nil || res.StructuredContent == nil {
				t.Fatalf("%s has an output schema and answers %v (%v)", tool.Name, res.StructuredContent, err)
			}
			validate(t, "structured content", tool.OutputSchema, structured)
		})
	}
	for key := range unsampled {
		t.Errorf("tool %s has no sample", key)
	}
}

func orEmpty(args string) string {
	if args == "" {
		return "{}"
	}
	return args
}

// validate checks a JSON text against a schema as the client received it.
func validate(t *testing.T, what string, schema any, data []byte) {
	t.Helper()
	raw, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatalf("read schema: %v", err)
	}
	rs, err := s.Resolve(nil)
	if err != nil {
		t.Fatalf("resolve schema: %v", err)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	if err := rs.Validate(v); err != nil {
		t.Errorf("%s %s: %v", what, data, err)
	}
}

// TestMissingArguments calls each tool without what its schema requires.
func TestMissingArguments(t *testing.T) {
	cs := inMemory(t, Config{})
	for name, tool := range listed(t, cs) {
		required, _ := tool.InputSchema.(map[string]any)["required"].([]any)
		if len(required) == 0 {
			continue
		}
		got := called(t, cs, name, `{}`)
		for _, field := range required {
			if !got.IsError || !strings.Contains(text(got), fmt.Sprintf("%q", field)) {
				t.Errorf("%s({}) = %s, isError %t; want an error that names %q", name, text(got), got.IsError, field)
			}
		}
	}
}

func TestBadArguments(t *testing.T) {
	cs := inMemory(t, Config{})
	for _, tt := range []struct{ tool, args, want string }{
		{"list-events", `{"calendar":7}`, `calendar: 7 is not allowed; its schema is {"description"`},
		{"list-events", `{"from":"2026-03-05","to":"2026-03-04"}`, "to: 2026-03-04 is before from"},
		{"list-events", `{"surprise":1}`, "surprise: there is no such argument; allowed are calendar, from, max, to"},
		{"list-events", `null`, `"total":6`}, // not an error: as if left out
		{"create-event", `{"title":"x","start":"tomorrow","end":"2026-03-09T10:00:00Z"}`, `start: "tomorrow" is not a time`},
		{"create-event", `{"title":"x","start":"2026-03-09T10:00:00Z","end":"2026-03-09T10:00:00Z"}`, "is not after start"},
		{"move-event", `{"id":"evt-101","start":"2026-03-09T10:00:00Z","by-minutes":5}`, `they must match {"oneOf":[{"required":["start"]}`},
		{"move-event", `{"id":"evt-999","by-minutes":5}`, `there is no event "evt-999"; list-events shows`},
		{"find-free-slot", `{"attendees":["a@b.example"],"day":"2026-03-07","minutes":30}`, "no working day"},
		{"send_mail", `{"to":"not an address","subject":"s","body":"b"}`, `to: "not an address" is not an e-mail address`},
		{"label_message", `{"message_id":"msg-501"}`, "at least one label"},
		{"createTicket", `{"title":"Slow","assignee":"@zoe"}`, `assignee: "zoe" is not allowed; allowed are ada,`},
		{"transitionTicket", `{"ticketId":"T-1041","to":"review"}`, "allowed are in_progress, done"},
		{"transitionTicket", `{"ticketId":"T-1044","to":"done"}`, `they must match {"if":`},
		{"files.write", `{"path":"/readme.txt","content":"x"}`, "exists already"},
		{"files.write", `{"path":"/a/../b","content":"x"}`, "not a clean absolute path"},
		{"files.read", `{"path":"/readme.txt","lines":[9,10]}`, "has 3 lines"},
		{"files.delete", `{"path":"/readme.txt","confirm":false}`, `confirm: false is not allowed; its schema is {"const":true`},
		{"update_contact", `{"contact_id":"con-11","fields":{"id":"con-1"}}`, "fields"},
		{"merge_contacts", `{"keep":"con-20","duplicates":["con-20"]}`, "is the contact to keep"},
		{"add_to_cart", `{"sku":"BCH-01","quantity":3}`, "2 are in stock"},
		{"checkout", `{"shipTo":{"street":"s","city":"c","country":"SE"},"payment":{"method":"card","cardToken":"tok_abcd"}}`, "the cart is empty"},
		{"create_outline", `{"title":"t","nodes":[` + strings.Repeat(`{"text":"x","children":[`, 20) + `{"text":"x"}` + strings.Repeat(`]}`, 20) + `]}`, "21 levels deep"},
		{"complete_task", `{"id":"note-301"}`, "is a note, not a task"},
		{"currentWeather", `{"location":{"city":"Atlantis"}}`, `location.city: "Atlantis" is not allowed; allowed are Berlin`},
		{"airQuality", `{"near":{"lat":1}}`, "lon"},
		{"airQuality", `{}`, "a town is needed"},
		{"convert_currency", `{"amount":1,"from":"EUR","to":"ZZZ"}`, `to: "ZZZ" is not allowed; allowed are CHF`},
		{"convert_unit", `{"value":1,"from":"kg","to":"km"}`, "allowed are g, kg, lb, oz"},
		{"search_flights", `{"from":"ARN","to":"BER","date":"2026-02-01"}`, "is in the past"},
		{"dat_ve_xe", `{"diem_di":"Huế","diem_den":"Huế","ngay":"2026-03-08","ho_ten":"An"}`, "điểm đến phải khác điểm đi"},
		{"request-leave", `{"employee":"hana","from":"2026-04-01","to":"2026-05-01"}`, "allowed are 1 to 6"},
		{"decide-leave", `{"id":"leave-81","decision":"maybe"}`, "decision"},
		{"crm.findAccounts", `{"filter":{"field":"seats","op":"contains","value":"4"}}`, "seats is a number"},
		{"crm.logActivity", `{"accountId":"acc-1","activity":{"type":"call"}}`, "activity"},
		{"export_report", `{"rows":100001}`, `rows: 100001 is not allowed; its schema is {"type":"integer","minimum":0,"maximum":100000`},
		{"increment_counter", `{"counter":"A B"}`, `counter: "A B" is not allowed`},
		{"increment_counter", `[1]`, "must be one JSON object"},
	} {
		got := called(t, cs, tt.tool, tt.args)
		if wantErr := tt.args != "null"; got.IsError != wantErr || !strings.Contains(text(got), tt.want) {
			t.Errorf("%s(%s) = %s, isError %t; want %q in it, isError %t", tt.tool, tt.args, text(got), got.IsError, tt.want, wantErr)
		}
	}
}

func TestAreas(t *testing.T) {
	cs := inMemory(t, Config{Name: "desk", Areas: []string{"shop", "calendar"}})
	tools := listed(t, cs)
	if tools["search"] == nil || tools["list_items"] == nil || tools["send_mail"] != nil {
		t.Errorf("calendar and shop list %d tools without search or list_items, or with send_mail", len(tools))
	}
	init := cs.InitializeResult()
	if init.ServerInfo.Name != "desk" {
		t.Errorf("serverInfo.name = %q, want desk", init.ServerInfo.Name)
	}
	if in := init.Instructions; !strings.Contains(in, "- calendar: ") || !strings.Contains(in, "- shop: ") || strings.Contains(in, "- mail: ") {
		t.Errorf("instructions = %q, want lines for calendar and shop only", in)
	}

	both := listed(t, inMemory(t, Config{Areas: []string{"calendar", "mail"}}))
	if both["search"] != nil || both["calendar_search"] == nil || both["mail_search"] == nil {
		t.Error("calendar and mail together do not list calendar_search and mail_search in place of search")
	}
	for _, areas := range [][]string{{"calender"}, {"mail", "mail"}, {""}} {
		if _, err := New(Config{Areas: areas}); err == nil {
			t.Errorf("New accepts the areas %q", areas)
		}
	}
}

func TestContentKinds(t *testing.T) {
	cs := inMemory(t, Config{})
	photo, ok := called(t, cs, "contact_photo", `{"contact_id":"con-12"}`).Content[0].(*mcp.ImageContent)
	if !ok {
		t.Fatal("contact_photo returns no image first")
	}
	img, err := png.Decode(bytes.NewReader(photo.Data))
	if err != nil || img.Bounds().Dx() != 64 || photo.MIMEType != "image/png" {
		t.Errorf("contact_photo is %s of %v (%v), want a PNG of 64 pixels", photo.MIMEType, img, err)
	}
	link, ok := called(t, cs, "files.share", `{"path":"/people/Reisekosten.txt"}`).Content[1].(*mcp.ResourceLink)
	if !ok {
		t.Fatal("files.share returns no resource link")
	}
	res, err := cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: link.URI})
	if err != nil || !strings.Contains(res.Contents[0].Text, "Belege") {
		t.Errorf("the link %s reads %+v (%v)", link.URI, res, err)
	}
	big := text(called(t, cs, "export_report", `{"rows":100000}`))
	if n := strings.Count(big, "\n"); n != 100_001 || len(big) < 2_000_000 {
		t.Errorf("100,000 rows are %d lines and %d bytes", n, len(big))
	}
}

func TestGermanHoliday(t *testing.T) {
	for _, tt := range []struct{ day, state, want string }{
		{"2024-05-20", "BE", "Pfingstmontag"},
		{"2025-05-29", "HH", "Christi Himmelfahrt"},
		{"2026-04-02", "BY", ""},
		{"2026-04-03", "BY", "Karfreitag"},
		{"2026-06-04", "NW", "Fronleichnam"},
		{"2026-06-04", "BE", ""},
		{"2027-03-08", "BE", "Frauentag"},
		{"2027-11-01", "NW", "Allerheiligen"},
		{"2027-11-01", "HH", ""},
		{"2029-10-31", "HH", "Reformationstag"},
		{"2026-01-06", "BY", "Heilige Drei Könige"},
		{"2038-04-26", "NW", "Ostermontag"},
	} {
		day, err := parseDay("day", tt.day)
		if err != nil {
			t.Fatal(err)
		}
		if got := germanHoliday(day, tt.state); got != tt.want {
			t.Errorf("germanHoliday(%s, %s) = %q, want %q", tt.day, tt.state, got, tt.want)
		}
	}
}
