package engine

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Most that is told of an error, in bytes.
const (
	maxName    = 200
	maxMessage = 8 << 10
	maxFail    = 1 << 20 // of what the guest sends
)

// thrown is what the guest sends of an error. Line and Column are given for text that no engine ran.
type thrown struct {
	Code    Code   `json:"code"`
	Name    string `json:"name"`
	Message string `json:"message"`
	Stack   string `json:"stack"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
}

func failure(code Code, format string, args ...any) *Failure {
	return &Failure{Code: code, Message: fmt.Sprintf(format, args...)}
}

// stopFailure tells why a body was stopped from outside.
func stopFailure(why stop, limit time.Duration) *Failure {
	switch why {
	case timeout:
		return failure(CodeTimeout, "the body took longer than %s", limit)
	case closed:
		return failure(CodeUnavailable, "the sandbox is being closed")
	default:
		return failure(CodeCancelled, "the body was cancelled")
	}
}

// readFailure makes a Failure of what the guest sent about an error. code is the source text that it happened in, compiling
// whether that was being compiled.
func readFailure(payload, source string, compiling bool) *Failure {
	var t thrown
	if len(payload) > maxFail {
		return failure(CodeException, "the body threw an error that is too large to be told")
	}
	if err := json.Unmarshal([]byte(payload), &t); err != nil {
		return failure(CodeUnavailable, "the sandbox cannot read the body's error")
	}
	f := &Failure{Code: t.code(compiling), Name: cut(t.Name, maxName), Message: cut(t.Message, maxMessage), Line: t.Line, Column: t.Column}
	if f.Line == 0 {
		f.Line, f.Column = position(t.Stack, source)
	}
	return f
}

func (t thrown) code(compiling bool) Code {
	switch t.Code {
	case CodeSyntax, CodeBridgeLimit, CodeOutputLimit:
		return t.Code
	}
	switch {
	case t.Name == "InternalError" && strings.Contains(t.Message, "out of memory"):
		return CodeMemory
	case t.Name == "RangeError" && strings.HasPrefix(t.Message, "Maximum call stack"), strings.Contains(t.Message, "stack overflow") && t.Name != "Error":
		return CodeStack
	case compiling && t.Name == "SyntaxError":
		return CodeSyntax
	}
	return CodeException
}

// bodyFile is what the guest calls the body's text, which stands in lines of its own between wrapStart and wrapEnd.
const (
	bodyFile  = "body.js"
	wrapStart = "async function () {\n"
	wrapEnd   = "\n}"
)

// position finds the first place in a stack that is in the body's text, and tells it as a line and column of source.
func position(stack, source string) (line, column int) {
	m := regexp.MustCompile(bodyFile + `:(\d{1,9}):(\d{1,9})`).FindStringSubmatch(stack)
	if m == nil {
		return 0, 0
	}
	line, _ = strconv.Atoi(m[1])
	column, _ = strconv.Atoi(m[2])
	line-- // the wrapper's
	if line < 1 {
		return 0, 0
	}
	if lines := strings.Count(source, "\n") + 1; line > lines { // the text ended too early
		last := source[strings.LastIndexByte(source, '\n')+1:]
		return lines, utf8.RuneCountInString(last) + 1
	}
	return line, column
}

// cut cuts a text to at most n bytes, on a character's boundary and with a mark.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const mark = "…"
	n -= len(mark)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}

// further gives the syntax error of the parser that got further into the text, a when both got equally far.
func further(a, b *Failure) *Failure {
	if b.Line > a.Line || b.Line == a.Line && b.Column > a.Column {
		return b
	}
	return a
}
