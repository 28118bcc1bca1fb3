package main

import (
	"github.com/spf13/cobra"
)

func (a *app) tasksCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "tasks",
		Short: "Look at and change the queue, as bin/worker",
		Long: `Look at and change the tasks of a queue, as Phorge's bin/worker does.

` + selectionHelp,
		Example: `  gantry tasks list
  gantry tasks list --class PhabricatorSearchWorker --min-failure-count 1
  gantry tasks show --id 4711
  gantry tasks retry --class PhabricatorMetaMTAWorker`,
	},
		a.listCommand(), a.showCommand(),
		a.cancelCommand(), a.freeCommand(), a.delayCommand(), a.priorityCommand(),
		a.retryCommand(), a.awakenCommand(),
		a.enqueueCommand(), a.floodCommand(),
	)
}

// selectOnly refuses arguments and says how tasks are selected.
func selectOnly(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%q is not understood; select tasks with flags, as in `%s --id 4711`", args[0], cmd.CommandPath())
	}
	return nil
}
