package main

import (
	"strings"
	"testing"
)

func TestSummarise(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   []string
		want string
		ok   bool
	}{
		{
			name: "all pass",
			in: []string{
				`{"Action":"start","Package":"p"}`,
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"chatter\n"}`,
				`{"Action":"run","Package":"p","Test":"TestA/sub"}`,
				`{"Action":"pass","Package":"p","Test":"TestA/sub"}`,
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Output":"PASS\n"}`,
				`{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}`,
				`{"Action":"pass","Package":"p"}`,
				`{"Action":"output","Package":"q","Output":"?   \tq\t[no test files]\n"}`,
				`{"Action":"skip","Package":"q"}`,
			},
			want: "ok  \tp\t0.1s\n2 passed, 0 failed\n",
			ok:   true,
		},
		{
			name: "one fails and one is skipped",
			in: []string{
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"run","Package":"p","Test":"TestB"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"a_test.go:1: bad\n"}`,
				`{"Action":"output","Package":"p","Test":"TestB","Output":"good\n"}`,
				`{"Action":"fail","Package":"p","Test":"TestA"}`,
				`{"Action":"pass","Package":"p","Test":"TestB"}`,
				`{"Action":"run","Package":"p","Test":"TestC"}`,
				`{"Action":"skip","Package":"p","Test":"TestC"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			want: "a_test.go:1: bad\nFAIL\tp\t0.1s\n1 passed, 1 failed, 1 skipped\n",
		},
		{
			name: "the process dies",
			in: []string{
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"panic: x\n"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			want: "panic: x\n0 passed, 1 failed\n",
		},
		{
			name: "does not build",
			in: []string{
				`{"ImportPath":"p","Action":"build-output","Output":"p.go:1: undefined: x\n"}`,
				`{"ImportPath":"p","Action":"build-fail"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}`,
				`{"Action":"fail","Package":"p","FailedBuild":"p"}`,
			},
			want: "p.go:1: undefined: x\nFAIL\tp [build failed]\n0 passed, 1 failed\n",
		},
		{
			name: "go speaks",
			in:   []string{"go: cannot find main module"},
			want: "go: cannot find main module\n0 passed, 0 failed\n",
		},
		{name: "nothing ran", want: "0 passed, 0 failed\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := strings.Join(tt.in, "\n")
			if in != "" {
				in += "\n"
			}
			var out strings.Builder
			ok, err := summarise(strings.NewReader(in), &out)
			if err != nil || ok != tt.ok || out.String() != tt.want {
				t.Errorf("summarise = %v, %v and\n%s\nwant %v and\n%s", ok, err, &out, tt.ok, tt.want)
			}
		})
	}
}
