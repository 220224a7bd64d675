// SPDX-License-Identifier: MIT
//
// Peer: Go time.AfterFunc. Every callback runs on its own goroutine, so Go has
// pool rows only (GOMAXPROCS = the number of cores).
package main

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var base = time.Now()

func now() int64 { return int64(time.Since(base)) }

func cpu() int64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

type rng uint64

func (s *rng) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}
func (s *rng) below(n uint32) uint32 { return uint32(((s.next() >> 32) * uint64(n)) >> 32) }
var delayBase uint32 = 1000 // 20000 for N >= 10^7: nothing may fall due while W1/W2 run

func (s *rng) delay() time.Duration {
	return time.Duration(delayBase+s.below(59001)) * time.Millisecond
}

func emit(k string, v float64) { fmt.Printf("%s %.4f\n", k, v) }
func die(s string) {
	fmt.Println("FAIL", s)
	os.Exit(1)
}
func rss() float64 {
	b, _ := os.ReadFile("/proc/self/statm")
	p, _ := strconv.ParseFloat(strings.Fields(string(b))[1], 64)
	return p * 4096
}

var count int64

func nop() { atomic.AddInt64(&count, 1) }

func delays(n int) []time.Duration {
	s := rng(1)
	d := make([]time.Duration, n)
	for i := range d {
		d[i] = s.delay()
	}
	return d
}
func armAll(T []*time.Timer, d []time.Duration) float64 {
	t0 := now()
	for i := range T {
		T[i] = time.AfterFunc(d[i], nop)
	}
	return float64(now()-t0) / float64(len(T))
}

func mem(n int) {
	if n >= 10000000 {
		delayBase = 20000
	}
	d := delays(n)
	T := make([]*time.Timer, n)
	for i := range T {
		T[i] = nil
	}
	runtime.GC()
	var m0, m1 runtime.MemStats
	runtime.ReadMemStats(&m0)
	r0 := rss()
	cold := armAll(T, d)
	r1 := rss()
	runtime.GC()
	runtime.ReadMemStats(&m1)
	emit("bytes", (r1-r0)/float64(n))
	emit("live_bytes", float64(m1.HeapAlloc-m0.HeapAlloc)/float64(n))
	emit("arm_cold_ns", cold)
	runtime.KeepAlive(T)
}

func w12(n int, secs float64) {
	if n >= 10000000 {
		delayBase = 20000
	}
	d := delays(n)
	T := make([]*time.Timer, n)
	rounds := 1
	if n <= 10000 {
		rounds = 20
	} else if n <= 100000 {
		rounds = 4
	}
	for r := 0; r < rounds; r++ {
		armAll(T, d)
		for _, t := range T {
			t.Stop()
		}
	}
	runtime.GC()
	sum, m := 0.0, (rounds+1)/2
	for r := 0; r < m; r++ {
		if r > 0 {
			for _, t := range T {
				t.Stop()
			}
		}
		sum += armAll(T, d)
	}
	emit("arm_ns", sum/float64(m))
	s := rng(99)
	var c0, t0 int64
	pairs := 0
	for pass := 0; pass < 2; pass++ {
		lim := int64(secs * 1e9)
		if pass == 0 {
			lim /= 4
		}
		pairs = 0
		c0 = cpu()
		t0 = now()
		for now()-t0 < lim {
			for k := 0; k < 256; k++ {
				i := s.below(uint32(n))
				T[i].Stop()
				T[i] = time.AfterFunc(s.delay(), nop)
			}
			pairs += 256
		}
	}
	emit("churn_ns", float64(now()-t0)/float64(pairs))
	emit("churn_cpu_ns", float64(cpu()-c0)/float64(pairs))
	emit("churn_pairs", float64(pairs))
	emit("churn_fired", float64(atomic.LoadInt64(&count)))
}

func w3(n int) {
	T := make([]*time.Timer, n)
	done := make(chan int64, 1)
	f := func() {
		if atomic.AddInt64(&count, 1) == int64(n) {
			done <- now()
		}
	}
	due := now() + int64(n)*900 + 50e6
	for i := range T {
		T[i] = time.AfterFunc(time.Duration(due-now()), f)
	}
	armed := now()
	end := <-done
	late := 0.0
	if armed > due {
		late = 1
		due = armed
	}
	time.Sleep(5 * time.Millisecond)
	if atomic.LoadInt64(&count) != int64(n) {
		die("w3 count")
	}
	emit("fire_ns", float64(end-due)/float64(n))
	emit("armed_late", late)
}

func w4(p int, rnd bool, total int) {
	each := total / p
	total = each * p
	done := make(chan int64, 1)
	f := func() {
		if atomic.AddInt64(&count, 1) == int64(total) {
			done <- now()
		}
	}
	for r := 0; r < 2; r++ { // warm-up: stacks, heap, goroutine free lists
		var wg sync.WaitGroup
		wg.Add(20000)
		for i := 0; i < 20000; i++ {
			time.AfterFunc(0, wg.Done)
		}
		wg.Wait()
	}
	runtime.GC()
	var sum int64
	var wg sync.WaitGroup
	start := make(chan int)
	for q := 0; q < p; q++ {
		wg.Add(1)
		s := rng(1000 + q*each)
		go func() {
			<-start
			t0 := now()
			if rnd {
				for k := 0; k < each; k++ {
					time.AfterFunc(s.delay(), f)
				}
			} else {
				for k := 0; k < each; k++ {
					time.AfterFunc(0, f)
				}
			}
			atomic.AddInt64(&sum, now()-t0)
			wg.Done()
		}()
	}
	time.Sleep(5 * time.Millisecond)
	t0 := now()
	close(start)
	wg.Wait()
	end := now()
	if !rnd {
		end = <-done
		if atomic.LoadInt64(&count) != int64(total) {
			die("w4 count")
		}
	}
	emit("submit_ns", float64(sum)/float64(total))
	emit("total_ns", float64(end-t0)/float64(total))
}

type ptask struct {
	ideal, period, last int64
	t                   *time.Timer
}

func periodic(k int, periodMs uint32, secs float64, record bool) {
	type sample struct {
		late int64
		win  int32
	}
	var S []sample
	var ns, execs int64
	if record {
		S = make([]sample, int(secs*40000+10000))
	}
	t0 := now() + 20e6 + int64(k)*4000
	winNs := int64(secs * 1e9 / 5)
	P := make([]ptask, k)
	s := rng(77)
	for i := range P {
		ms := periodMs
		if ms == 0 {
			ms = uint32(10 + i%91)
		}
		P[i].period = int64(ms) * 1e6
		P[i].ideal = t0 + int64(s.below(ms*1000))*1000
	}
	for i := range P {
		p := &P[i]
		var run func()
		run = func() {
			n := now()
			p.last = n - p.ideal
			if record {
				j := atomic.AddInt64(&ns, 1) - 1
				if j < int64(len(S)) {
					S[j] = sample{p.last, int32((n - t0) / winNs)}
				}
			}
			atomic.AddInt64(&execs, 1)
			p.ideal += p.period
			p.t.Reset(time.Duration(p.ideal - now()))
		}
		p.t = time.AfterFunc(time.Hour, run)
	}
	for i := range P {
		P[i].t.Reset(time.Duration(P[i].ideal - now()))
	}
	time.Sleep(time.Duration(t0 - now()))
	c0, e0, b0 := cpu(), atomic.LoadInt64(&execs), now()
	time.Sleep(time.Duration(t0 + int64(secs*1e9) - now()))
	c1, e1, b1 := cpu(), atomic.LoadInt64(&execs), now()
	if record {
		emit("cpu_ms", float64(c1-c0)/1e6)
		emit("execs", float64(e1-e0))
		n := atomic.LoadInt64(&ns)
		for w := int32(0); w < 5; w++ {
			var v []float64
			for _, x := range S[:n] {
				if x.win == w {
					v = append(v, float64(x.late)/1e3)
				}
			}
			sort.Float64s(v)
			m := len(v)
			fmt.Printf("win p50 %.1f p99 %.1f p999 %.1f max %.1f n %d\n", v[m/2],
				v[int(float64(m)*0.99)], v[int(float64(m)*0.999)], v[m-1], m)
		}
		var l []float64
		for i := range P {
			l = append(l, float64(P[i].last)/1e3)
		}
		sort.Float64s(l)
		emit("drift_us", l[k/2])
	} else {
		emit("keepup", float64(e1-e0)/(float64(b1-b0)/1e6/float64(periodMs)*float64(k)))
		emit("cpu_s_per_M", float64(c1-c0)/1e9/float64(e1-e0)*1e6)
	}
}

func check() {
	n := 20000
	s := rng(5)
	fired := make([]int32, n)
	due := make([]int64, n)
	want := make([]int32, n)
	T := make([]*time.Timer, n)
	var early int64
	arm := func(i int) {
		ms := int64(20 + s.below(200))
		d := now() + ms*1e6
		atomic.StoreInt64(&due[i], d)
		T[i] = time.AfterFunc(time.Duration(ms)*time.Millisecond, func() {
			if now() < d {
				atomic.AddInt64(&early, 1)
			}
			atomic.AddInt32(&fired[i], 1)
		})
		want[i]++
	}
	for i := 0; i < n; i++ {
		arm(i)
	}
	cancelled := 0
	for k := 0; k < 20000; k++ {
		i := int(s.below(uint32(n)))
		if T[i].Stop() {
			want[i]--
			cancelled++
		}
		arm(i)
	}
	for i := 0; i < n; i += 2 {
		if T[i].Stop() {
			want[i]--
			cancelled++
		}
	}
	time.Sleep(300 * time.Millisecond)
	total := 0
	for i := 0; i < n; i++ {
		if fired[i] != want[i] {
			die("check: a task fired a wrong number of times")
		}
		total += int(fired[i])
	}
	if early > 0 {
		die("check: a task fired early")
	}
	emit("check_early_us", 0)
	emit("check_fired", float64(total))
	emit("check_cancelled", float64(cancelled))
}

func num(s string) int { n, _ := strconv.Atoi(s); return n }
func flt(s string) float64 {
	f, _ := strconv.ParseFloat(s, 64)
	return f
}

func main() {
	a := os.Args[1:]
	switch {
	case a[0] == "check":
		check()
	case a[0] == "mem":
		mem(num(a[1]))
	case a[0] == "w12":
		w12(num(a[1]), flt(a[2]))
	case a[0] == "w3" && a[1] == "pool":
		w3(num(a[2]))
	case a[0] == "w4" && a[1] == "pool":
		w4(num(a[2]), a[3] == "rand", num(a[4]))
	case a[0] == "w5" && a[1] == "pool":
		periodic(1000, 0, flt(a[2]), true)
	case a[0] == "w6" && a[1] == "pool":
		periodic(num(a[2]), uint32(num(a[3])), flt(a[4]), false)
	default:
		os.Exit(2)
	}
}
