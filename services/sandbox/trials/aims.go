package trials

import (
	"fmt"
	"time"
)

// What is aimed at on an idle machine.
const (
	aimRatio   = 100.0                   // times that Node needs for `return 1`
	aimCalls   = 1500 * time.Microsecond // 3 calls
	aimOver    = 100 * time.Millisecond  // beyond its limit, for a hostile body alone
	aimOverTen = 250 * time.Millisecond  // and for one of ten
	aimMemory  = 1 << 10                 // MiB, ten hostile bodies at once
)

func (r *Report) aimsOfRows() []Aim {
	var aims []Aim
	for _, row := range r.Rows {
		switch {
		case row.Name == kinds[0].name && row.Node != nil:
			aims = append(aims,
				Aim{fmt.Sprintf("return 1: at least %.0f times as fast as Node", aimRatio), fmt.Sprintf("%.0f times", row.Wall), row.Wall >= aimRatio},
				Aim{fmt.Sprintf("return 1: at most a %.0fth of Node's CPU time", aimRatio), fmt.Sprintf("a %.0fth", row.CPU), row.CPU >= aimRatio})
		case row.Name == kinds[1].name:
			aims = append(aims, Aim{fmt.Sprintf("3 calls: at most %v", aimCalls), row.Sandbox.Median.Round(time.Microsecond).String(), row.Sandbox.Median <= aimCalls})
		}
	}
	return aims
}

func (r *Report) aimsOfAttacks() []Aim {
	var aims []Aim
	for _, h := range r.Hostile {
		aim := aimOver
		if h.AtOnce > 1 {
			aim = aimOverTen
		}
		left := "nothing"
		if h.Left != "" {
			left = h.Left
		}
		head := fmt.Sprintf("%d hostile bodies, %d at once, %v each: ", h.Bodies, h.AtOnce, h.Limit)
		aims = append(aims,
			Aim{head + "all end as documented", fmt.Sprintf("%d do not", len(h.Wrong)), len(h.Wrong) == 0},
			Aim{fmt.Sprintf("%sat most %v beyond the limit", head, aim), h.Over.Max.Round(time.Millisecond).String(), h.Over.Max <= aim},
			Aim{fmt.Sprintf("%sat most %d MiB in all processes", head, aimMemory), fmt.Sprintf("%d MiB", h.Memory), h.Memory <= aimMemory},
			Aim{head + "nothing is left over", left, h.Left == ""})
	}
	if n := r.Neighbour; n != nil {
		aims = append(aims, Aim{"a neighbour's p99 is at most twice as long, or 20 ms longer",
			fmt.Sprintf("%v beside %v", n.Beside.P99.Round(time.Microsecond), n.Alone.P99.Round(time.Microsecond)), n.Good()})
	}
	return aims
}
