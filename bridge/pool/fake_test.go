package pool

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
)

// fakeProcess is the test binary as a process of a pool. It speaks the frames
// and misbehaves when it is told to.
type fakeProcess struct {
	requests *bufio.Reader
	answers  *os.File
}

// fakeOrder is the data of a task for a fakeProcess.
type fakeOrder struct {
	Do      string `json:"do"`
	Started string `json:"started"` // a file that gets the process id when the work begins
	Text    string `json:"text"`
	Times   int    `json:"times"`
	File    string `json:"file"`
}

// hang keeps a process that hears nothing.
func hang() {
	for {
		time.Sleep(time.Hour)
	}
}

// fakeHost does at its start what the file says, and then serves tasks.
func fakeHost(file string) {
	how, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	f := fakeProcess{bufio.NewReader(os.NewFile(3, "requests")), os.NewFile(4, "answers")}
	ready := map[string]any{
		"type": "ready", "protocol": 1, "pid": os.Getpid(), "phorge": "fake", "php": "8.2", "namespace": "phorge",
		"readOnly": false, "classes": []string{"Echo", "Do"}, "publishers": []string{"Publish"},
	}
	switch word, rest, _ := strings.Cut(string(how), " "); word {
	case "exit":
		fmt.Fprintln(os.Stderr, rest)
		syscall.Exit(2)
	case "stop":
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		hang()
	case "hang":
		fmt.Println(rest)
		hang()
	case "protocol":
		ready["protocol"] = 7
	case "namespace":
		ready["namespace"] = rest
	case "read-only":
		ready["readOnly"] = true
	case "no-classes":
		ready["classes"] = map[string]any{}
	case "garbage":
		f.answers.WriteString(rest)
		hang()
	case "twice":
		f.say(ready)
	case "print":
		fmt.Print(rest)
	case "quit":
		f.say(ready)
		syscall.Exit(3)
	case "deaf":
		f.say(ready)
		hang()
	case "nibble":
		f.say(ready)
		io.ReadFull(os.NewFile(3, "requests"), make([]byte, 10))
		hang()
	case "shut":
		os.NewFile(3, "requests").Close()
		f.say(ready)
		hang()
	}
	f.say(ready)
	for f.serve() {
	}
	syscall.Exit(0) // os.Exit takes a second under the race detector
}

func (f fakeProcess) say(header map[string]any) {
	if _, err := writeFrame(f.answers, header, nil); err != nil {
		syscall.Exit(9)
	}
}

// serve serves one task, and reports false at the end of the requests.
func (f fakeProcess) serve() bool {
	header, body, err := readFrame(f.requests)
	if err == io.EOF {
		return false
	}
	var request struct {
		Type, Request string
		Task          json.RawMessage
	}
	if err := json.Unmarshal(header, &request); err != nil || request.Type != "run" {
		panic(fmt.Sprint(err, string(header)))
	}
	var task tasks.Task
	json.Unmarshal(request.Task, &task)
	outcome := map[string]any{
		"kind": "succeeded", "wait": 0, "category": "", "reason": "", "durationUs": 5, "followUps": []any{}, "uncaught": false,
	}
	answer := map[string]any{"type": "outcome", "request": request.Request, "outcome": outcome, "leaving": "", "memory": 4096}
	if task.Class == "Echo" {
		outcome["kind"] = "failed"
		outcome["reason"] = string(request.Task) + hex.EncodeToString(body)
	} else if !f.do(body, request.Request, answer) {
		return true
	}
	f.say(answer)
	return true
}

// do does what a task orders, and reports whether the answer is to be given.
func (f fakeProcess) do(data []byte, request string, answer map[string]any) bool {
	var order fakeOrder
	if err := json.Unmarshal(data, &order); err != nil {
		panic(err)
	}
	if order.Started != "" {
		writePID(order.Started, os.Getpid())
	}
	switch order.Do {
	case "":
	case "outcome": // instead of success
		answer["outcome"] = json.RawMessage(order.Text)
	case "say": // these bytes instead of an answer
		f.answers.WriteString(strings.ReplaceAll(order.Text, "REQUEST", request))
		return false
	case "frame": // this frame, so many times, instead of an answer
		text := strings.ReplaceAll(order.Text, "REQUEST", request)
		lengths := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
		frame := append(binary.BigEndian.AppendUint32(lengths, 0), text...)
		f.answers.Write(bytes.Repeat(frame, max(1, order.Times)))
		return false
	case "answer twice":
		f.say(answer)
	case "half an answer":
		f.answers.WriteString("\x00\x00\x01\x00\x00\x00\x00\x00{\"type\"")
		syscall.Exit(5)
	case "answer and exit":
		f.say(answer)
		syscall.Exit(6)
	case "close the answers":
		f.answers.Close()
		hang()
	case "start, answer and exit":
		f.say(map[string]any{"type": "started", "request": request, "lease": 5})
		f.say(answer)
		syscall.Exit(6)
	case "leave":
		answer["leaving"] = order.Text
	case "leave while idle":
		f.say(answer)
		f.say(map[string]any{"type": "leaving", "reason": order.Text})
		return false
	case "lease":
		f.say(map[string]any{"type": "started", "request": request, "lease": order.Times})
		header, _, err := readFrame(f.requests)
		answer["outcome"].(map[string]any)["reason"] = fmt.Sprint(string(header), err)
	case "print":
		fmt.Fprint(os.Stdout, strings.Repeat(order.Text, max(1, order.Times)))
	case "exit":
		fmt.Fprint(os.Stderr, order.Text)
		syscall.Exit(cmp.Or(order.Times, 4))
	case "stop":
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		hang()
	case "hang":
		hang()
	case "wait for file":
		for {
			if _, err := os.Stat(order.File); err == nil {
				return true
			}
			time.Sleep(time.Millisecond)
		}
	case "start a program":
		startProgram(order.File, false, "sleep", "1000")
		hang()
	case "leave an orphan":
		startProgram(order.File, true, "sleep", "1000")
		syscall.Exit(4)
	case "leave an orphan that answers":
		startProgram(order.File, true, os.Args[0], "fake-orphan", request, order.File+".answer")
		hang()
	default:
		panic(order.Do)
	}
	return true
}

// startProgram starts a program that inherits the pipes, and writes its process
// id to a file.
func startProgram(file string, leaves bool, name string, arguments ...string) {
	program := exec.Command(name, arguments...)
	program.ExtraFiles = []*os.File{os.NewFile(3, "requests"), os.NewFile(4, "answers")}
	program.SysProcAttr = &syscall.SysProcAttr{Setsid: leaves}
	if err := program.Start(); err != nil {
		panic(err)
	}
	writePID(file, program.Process.Pid)
}

// fakeOrphan answers a request once a file is there. Without its directory, the
// test is over.
func fakeOrphan(request, file string) {
	for _, err := os.Stat(file); err != nil; _, err = os.Stat(file) {
		if _, err := os.Stat(filepath.Dir(file)); err != nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
	f := fakeProcess{answers: os.NewFile(4, "answers")}
	f.say(map[string]any{"type": "outcome", "request": request, "outcome": map[string]any{"kind": "succeeded"}})
}

// fakeGantry is the test binary as a Gantry that a test can kill: it runs a
// task that hangs.
func fakeGantry(dir string) {
	p, err := New(Config{Command: []string{os.Args[0], "fake-host", dir + "/start"}})
	if err != nil {
		panic(err)
	}
	if err := p.Start(context.Background()); err != nil {
		panic(err)
	}
	run(context.Background(), p, map[string]any{"do": "hang", "started": dir + "/pid"})
}

func writePID(file string, pid int) {
	if err := os.WriteFile(file+".new", []byte(strconv.Itoa(pid)), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		panic(err)
	}
}
