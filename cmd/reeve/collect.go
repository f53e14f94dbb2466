package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/urfave/cli/v2"

	"github.com/reeve-audit/reeve/pipeline"
	"github.com/reeve-audit/reeve/pipeline/bus"
)

// collectorName is the durable consumer that all collectors of a server share.
const collectorName = "collect"

func collectCommand() *cli.Command {
	return &cli.Command{
		Name:      "collect",
		Usage:     "move the records of many machines from a NATS server into a store",
		UsageText: "reeve collect --nats URL --store URL",
		Description: `Runs until it is interrupted. Each record is stored once, also across restarts of this
process, of the NATS server (with JetStream) and of the store. Machines send with
'reeve run --nats URL'.

   reeve collect --nats nats://hub:4222 --store clickhouse://reeve@db:9000/reeve
   reeve collect --nats tls://hub:4222 --creds collector.creds --store sqlite:///srv/reeve.db`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "nats", EnvVars: []string{"REEVE_NATS"}, Usage: "the NATS server's `URL`"},
			&cli.StringFlag{Name: "creds", TakesFile: true, Usage: "`FILE` with NATS credentials"},
			&cli.StringFlag{Name: "store", EnvVars: []string{"REEVE_STORE"}, Usage: "the store's `URL` (" + storeForms + ")"},
			&cli.BoolFlag{Name: "once", Usage: "end when the server has no more records"},
		},
		Action: collect,
	}
}

func collect(c *cli.Context) (err error) {
	if err := noArgs(c); err != nil {
		return err
	}
	for _, name := range []string{"nats", "store"} {
		if c.String(name) == "" {
			return withHint(usageErrorf("collect: --%s is missing", name), "reeve collect --nats nats://HOST:4222 --store clickhouse://HOST:9000/reeve")
		}
	}
	if err := checkTargets(c.String("store"), c.String("nats")); err != nil {
		return err
	}
	ctx, stop := interruptible(c.Context)
	defer stop()
	log := slog.New(slog.NewTextHandler(c.App.ErrWriter, nil))
	store, err := openStore(c.String("store"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	server, err := bus.Dial(ctx, bus.DialConfig{URL: c.String("nats"), Credentials: c.String("creds"), Log: log})
	if err != nil {
		return withHint(err, "is the server running, and was it started with JetStream (nats-server -js)?")
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	source, err := server.Consume(ctx, collectorName, bus.PositionDurable)
	if err != nil {
		return err
	}
	collector, err := pipeline.NewCollector(pipeline.CollectorConfig{Source: source, Store: store, Log: log})
	if err != nil {
		return err
	}
	if c.Bool("once") {
		collector.Stop()
	}
	err = collector.Run(ctx)
	fmt.Fprintf(c.App.ErrWriter, "reeve: %d records stored, %d messages refused\n", collector.Stored(), collector.Refused())
	if errors.Is(err, context.Canceled) {
		return nil // ^C is how this verb ends
	}
	return err
}
