package conduit

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// gate holds back runs until it is told to let one through, and knows how many
// tasks each had.
type gate struct {
	arrived chan int
	open    chan struct{}
}

func newGate(p *phorge) gate {
	g := gate{arrived: make(chan int, 1000), open: make(chan struct{}, 1000)}
	p.setMeddle(func(c *conduitCall, _ http.ResponseWriter) bool {
		if c.mode == "run" {
			g.arrived <- len(c.tasks)
			<-g.open
		}
		return false
	})
	return g
}

func TestTasksThatWaitShareACall(t *testing.T) {
	p := newPhorge(t)
	g := newGate(p)
	c := configured(p)
	c.Connections, c.TasksPerCall = 1, 4
	e, _ := start(t, c)
	first := background(t.Context(), e, p.leased())
	if n := <-g.arrived; n != 1 {
		t.Fatalf("a lone task went with %d others", n-1)
	}
	var outcomes []<-chan tasks.Outcome
	for range 10 {
		outcomes = append(outcomes, background(t.Context(), e, p.leased()))
	}
	eventually(t, "ten wait", func() bool { return e.State().Waiting == 10 })
	g.open <- struct{}{}
	want(t, await(t, first), tasks.Succeeded, "")
	var sizes []int
	for range 3 {
		sizes = append(sizes, <-g.arrived)
		if calls := e.State().Calls; calls != 1 {
			t.Errorf("%d calls over one connection", calls)
		}
		g.open <- struct{}{}
	}
	if !slices.Equal(sizes, []int{4, 4, 2}) {
		t.Errorf("the calls had %v tasks", sizes)
	}
	for _, outcome := range outcomes {
		want(t, await(t, outcome), tasks.Succeeded, "")
	}
	eventually(t, "the connection is free", func() bool { return e.State().Calls == 0 })
}

func TestTasksOfASlowOrUnknownClassGoAlone(t *testing.T) {
	p := newPhorge(t)
	g := newGate(p)
	c := configured(p)
	c.Connections = 1
	e, _ := start(t, c)
	for range 50 {
		e.learn("PhabricatorTestWorker", 10*time.Second)
		e.learn("PhabricatorSearchWorker", time.Millisecond)
	}
	first := background(t.Context(), e, p.leasedOf("PhabricatorSearchWorker"))
	<-g.arrived
	var outcomes []<-chan tasks.Outcome
	for i, class := range []string{"PhabricatorSearchWorker", "PhabricatorSearchWorker", "PhabricatorTestWorker", "PhabricatorTestWorker", "New", "PhabricatorSearchWorker"} {
		outcomes = append(outcomes, background(t.Context(), e, p.leasedOf(class)))
		eventually(t, "it waits", func() bool { return e.State().Waiting == i+1 })
	}
	g.open <- struct{}{}
	var sizes []int
	for range 5 {
		sizes = append(sizes, <-g.arrived)
		g.open <- struct{}{}
		if len(sizes) == 4 { // the new class is known to be cheap only after its call
			break
		}
	}
	if !slices.Equal(sizes, []int{2, 1, 1, 1}) {
		t.Errorf("the calls had %v tasks", sizes)
	}
	if n := <-g.arrived; n != 1 {
		t.Errorf("the last call had %d tasks", n)
	}
	g.open <- struct{}{}
	await(t, first)
	for _, outcome := range outcomes {
		await(t, outcome)
	}
}

func TestNeverMoreCallsThanConnections(t *testing.T) {
	p := newPhorge(t)
	g := newGate(p)
	c := configured(p)
	c.Connections, c.TasksPerCall = 3, 1
	e, _ := start(t, c)
	var outcomes []<-chan tasks.Outcome
	for range 9 {
		outcomes = append(outcomes, background(t.Context(), e, p.leased()))
	}
	eventually(t, "six wait", func() bool { return e.State().Waiting == 6 })
	for range 3 {
		<-g.arrived
	}
	for range 6 {
		select {
		case <-g.arrived:
			t.Fatal("a fourth call came")
		default:
		}
		g.open <- struct{}{}
		<-g.arrived
	}
	for range 3 {
		g.open <- struct{}{}
	}
	for _, outcome := range outcomes {
		want(t, await(t, outcome), tasks.Succeeded, "")
	}
}

func TestACallIsNeverLargerThanPhorgeTakes(t *testing.T) {
	p := newPhorge(t)
	p.maxTasks = 2
	e, _ := start(t, configured(p))
	for range 100 {
		e.learn("PhabricatorTestWorker", 0)
	}
	if n := e.Slots(); n != (DefaultConnections+1)*2 {
		t.Errorf("%d slots", n)
	}
}

func TestThereAreMoreSlotsThanConnectionsOnlyForCheapTasks(t *testing.T) {
	p := newPhorge(t)
	e, _ := start(t, configured(p))
	if n := e.Slots(); n != DefaultConnections {
		t.Errorf("%d slots while nothing is known", n)
	}
	for range 100 {
		e.learn("A", time.Millisecond)
	}
	if n := e.Slots(); n != (DefaultConnections+1)*DefaultTasksPerCall {
		t.Errorf("%d slots for cheap tasks", n)
	}
	for range 100 {
		e.learn("B", time.Minute)
	}
	if n := e.Slots(); n != DefaultConnections {
		t.Errorf("%d slots for slow tasks", n)
	}
}

func TestATaskThatWaitsTooLongForACallGoesBack(t *testing.T) {
	p := newPhorge(t)
	g := newGate(p)
	c := configured(p)
	c.Connections = 1
	c.times.patience = time.Millisecond
	e, _ := start(t, c)
	first := background(t.Context(), e, p.leased())
	<-g.arrived
	want(t, execute(t, e, p.leased()), tasks.Released, "no connection was free")
	g.open <- struct{}{}
	want(t, await(t, first), tasks.Succeeded, "") // however long it takes
}

func TestACancelledTaskThatWasNotSentGoesBackAtOnce(t *testing.T) {
	p := newPhorge(t)
	g := newGate(p)
	c := configured(p)
	c.Connections = 1
	e, _ := start(t, c)
	first := background(t.Context(), e, p.leased())
	<-g.arrived
	ctx, cancel := context.WithCancel(t.Context())
	second := background(ctx, e, p.leased())
	eventually(t, "it waits", func() bool { return e.State().Waiting == 1 })
	cancel()
	want(t, await(t, second), tasks.Released, "")
	g.open <- struct{}{}
	want(t, await(t, first), tasks.Succeeded, "")
	if n := p.count("run"); n != 1 {
		t.Errorf("%d runs", n)
	}
}

func TestCloseLeavesWhatRunsForAMinuteAndGivesBackTheRest(t *testing.T) {
	p := newPhorge(t)
	g := newGate(p)
	c := configured(p)
	c.Connections = 1
	e, _ := start(t, c)
	sent := background(t.Context(), e, p.leased())
	<-g.arrived
	unsent := background(t.Context(), e, p.leased())
	eventually(t, "it waits", func() bool { return e.State().Waiting == 1 })
	for range 2 {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	left := await(t, sent)
	if want(t, left, tasks.Released, "Gantry stopped"); left.Wait != time.Minute {
		t.Errorf("what may still run waits %v", left.Wait)
	}
	want(t, await(t, unsent), tasks.Released, "")
	want(t, execute(t, e, p.leased()), tasks.Released, "")
	if e.Ready("PhabricatorTestWorker") {
		t.Error("it is ready after it was closed")
	}
	g.open <- struct{}{}
}

func TestStartIsForOnceAndDoesNotNeedAPhorge(t *testing.T) {
	p := newPhorge(t)
	p.setMeddle(func(_ *conduitCall, w http.ResponseWriter) bool {
		page(w, 502, "Bad Gateway")
		return true
	})
	e, log := startAny(t, configured(p))
	if e.Ready("PhabricatorTestWorker") || e.State().Problem == "" {
		t.Errorf("state %+v", e.State())
	}
	if err := e.Start(t.Context()); err == nil {
		t.Error("it started twice")
	}
	p.setMeddle(func(*conduitCall, http.ResponseWriter) bool { return false })
	eventually(t, "it is ready", func() bool { return e.Ready("PhabricatorTestWorker") })
	if s := e.State(); s.Problem != "" || !slices.Equal(s.TaskClasses, []string{"PhabricatorSearchWorker", "PhabricatorTestWorker"}) {
		t.Errorf("state %+v", s)
	}
	_ = e.Close()
	if err := e.Start(t.Context()); err == nil {
		t.Errorf("it started after it was closed: %s", log)
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	p := newPhorge(t)
	came := make(chan struct{}, 1)
	p.setMeddle(func(c *conduitCall, _ http.ResponseWriter) bool {
		came <- struct{}{}
		<-c.Context().Done()
		return true
	})
	e, err := New(configured(p))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-came
		cancel()
	}()
	if err := e.Start(ctx); err == nil {
		t.Error("no error")
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

func TestATaskWithoutALeaseIsNotSent(t *testing.T) {
	p := newPhorge(t)
	e, _ := start(t, configured(p))
	want(t, execute(t, e, tasks.Task{ID: 1, Class: "PhabricatorTestWorker"}), tasks.Released, "no lease")
}
