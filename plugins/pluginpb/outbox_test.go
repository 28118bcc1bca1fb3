package pluginpb

import (
	"sync"
	"testing"
)

func TestOutboxLosesAndReordersNothing(t *testing.T) {
	const senders, each = 8, 5000
	type item struct{ sender, n int }
	o := NewOutbox[item]()
	var putting sync.WaitGroup
	for sender := range senders {
		putting.Go(func() {
			for n := range each {
				o.Put(item{sender, n})
			}
		})
	}
	defer putting.Wait()
	next := [senders]int{}
	for taken := 0; taken < senders*each; {
		batch := o.Take(nil)
		for _, i := range batch {
			if i.n != next[i.sender] {
				t.Fatalf("sender %d: item %d came where %d was due", i.sender, i.n, next[i.sender])
			}
			next[i.sender]++
		}
		taken += len(batch)
	}
}

func TestOutboxGathersWhatCameTogether(t *testing.T) {
	o := NewOutbox[int]()
	o.Put(1)
	o.Put(2)
	if batch := o.Take(nil); len(batch) != 2 {
		t.Errorf("took %v", batch)
	}
}

func TestOutboxEndsWhenDone(t *testing.T) {
	done := make(chan struct{})
	close(done)
	if batch := NewOutbox[int]().Take(done); batch != nil {
		t.Errorf("took %v", batch)
	}
}
