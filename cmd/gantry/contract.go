package main

import "github.com/spf13/cobra"

func (a *app) contractCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "contract",
		Short: "Prove that Go does with a task what PHP did",
		Long: `Write cases of a task class, record what PHP does with them, and hold a Go handler
against that. contract/GUIDE.md of Gantry tells the whole way.`,
		Example: `  gantry contract new HeraldWebhookWorker --cases cases`,
	}, a.contractNewCommand())
}
