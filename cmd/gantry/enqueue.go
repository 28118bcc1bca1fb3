package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/phorge-gantry/gantry/tasks"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// enqueueFlags is what the flags of enqueue say.
type enqueueFlags struct {
	class, data, dataFile    string
	priority                 int
	object, container, delay string
}

func (a *app) enqueueCommand() *cobra.Command {
	var f enqueueFlags
	cmd := &cobra.Command{
		Use:   "enqueue",
		Short: "Queue a task",
		Long: `Queue one task. Its data is stored byte for byte and must be JSON, as
PHP's json_decode takes it. What is given with --data can be read by everyone on
this machine while the command runs; --data-file avoids that.

` + whenHelp,
		Example: `  gantry tasks enqueue --class PhabricatorTestWorker --data '{"duration":1}'
  gantry tasks enqueue --class PhabricatorSearchWorker --data-file task.json --priority 3500
  generate-task | gantry tasks enqueue --class AcmeDeployWorker --data-file - --delay "10 minutes"`,
		Args: noArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.class, "class", "", "`class` of the task")
	flags.StringVar(&f.data, "data", "", "data of the task, as `JSON`")
	flags.StringVar(&f.dataFile, "data-file", "", "`file` that holds the data, or - for standard input")
	flags.IntVar(&f.priority, "priority", tasks.PriorityDefault, "`priority`; smaller numbers run first")
	flags.StringVar(&f.object, "object", "", "`PHID` of the object the task is about")
	flags.StringVar(&f.container, "container", "", "`PHID` of the container the task belongs to")
	flags.StringVar(&f.delay, "delay", "", "`time` before which the task does not run, such as \"6 hours\"")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		task, err := f.task(a, flags)
		if err != nil {
			return err
		}
		return a.withStore(cmd, func(ctx context.Context, _ *config, s store) error {
			return a.enqueue(ctx, s, task, f.delay)
		})
	}
	return cmd
}

// task answers what is to be queued, but for the delay.
func (f enqueueFlags) task(a *app, flags *pflag.FlagSet) (tasks.NewTask, error) {
	task := tasks.NewTask{Class: f.class, Data: []byte(f.data), Priority: &f.priority}
	if f.class == "" {
		return task, usagef("name the class of the task with --class")
	}
	switch inline, inFile := flags.Changed("data"), flags.Changed("data-file"); {
	case inline && inFile:
		return task, usagef("give the data of the task with --data or with --data-file, not with both")
	case !inline && !inFile:
		return task, usagef("give the data of the task with --data or with --data-file")
	}
	if flags.Changed("object") {
		task.ObjectPHID = &f.object
	}
	if flags.Changed("container") {
		task.ContainerPHID = &f.container
	}
	if f.delay != "" {
		if _, err := parseWhen(f.delay, 0, time.Local); err != nil {
			return task, usagef("--delay: %w", err)
		}
	}
	if f.dataFile != "" {
		var err error
		if task.Data, err = a.read(f.dataFile); err != nil {
			return task, usagef("read the data of the task: %w", err)
		}
	}
	return task, nil
}

// read reads a whole file, or standard input for -.
func (a *app) read(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(a.in)
	}
	return os.ReadFile(name)
}

func (a *app) enqueue(ctx context.Context, s store, task tasks.NewTask, delay string) error {
	if delay != "" {
		now, err := s.Now(ctx)
		if err != nil {
			return err
		}
		if task.DelayUntil, err = parseWhen(delay, now, time.Local); err != nil {
			return err
		}
		if task.DelayUntil == now {
			task.DelayUntil = 0
		}
	}
	ids, err := s.Enqueue(ctx, []tasks.NewTask{task})
	if err != nil {
		return err
	}
	if a.print.json {
		return a.print.document(struct {
			ID    int64  `json:"id"`
			Class string `json:"taskClass"`
		}{ids[0], task.Class})
	}
	a.print.linef("Task %d (%s) was queued.", ids[0], plain(task.Class))
	return nil
}
