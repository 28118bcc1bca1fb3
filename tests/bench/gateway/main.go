// Command gateway serves bridge/gateway alone, so that the bench measures it as
// the process that it is beside nginx.
//
//	gateway URL DIGEST LOG
//
// It prints the address on which it listens.
package main

import (
	"fmt"
	"net"
	"os"

	"github.com/rs/zerolog"

	"github.com/phorge-gantry/gantry/bridge/gateway"
	"github.com/phorge-gantry/gantry/tasks/token"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

func run(url, digest, file string) error {
	log, err := os.Create(file)
	if err != nil {
		return err
	}
	g, err := gateway.New(gateway.Config{
		URL: url, Log: zerolog.New(log).With().Timestamp().Logger(),
		Tokens: []gateway.Token{{Name: "bench", Digests: []string{digest}, Allow: []string{"user.*"}, Rate: token.Rate{PerSecond: 1e9}}},
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	return g.Server().Serve(listener)
}
