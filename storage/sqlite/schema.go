package sqlite

import (
	"context"
	"database/sql"
	"fmt"
)

// migrations bring a file from one version (PRAGMA user_version) to the next.
// They are only ever appended. Table events holds what versions 1 and 2 have
// stored, a row a record, see columns.go; nothing comes to it any more.
var migrations = []string{`
CREATE TABLE sessions (
	sid      INTEGER PRIMARY KEY,
	id       TEXT NOT NULL UNIQUE,
	start_ns INTEGER NOT NULL,
	end_ns   INTEGER NOT NULL,
	events   INTEGER NOT NULL,
	last_seq INTEGER NOT NULL,
	requests INTEGER NOT NULL,
	denied   INTEGER NOT NULL,
	asked    INTEGER NOT NULL,
	lost     INTEGER NOT NULL,
	ended    INTEGER NOT NULL
);
CREATE TABLE events (
	sid INTEGER NOT NULL, seq INTEGER NOT NULL,
	time_unix_ns INTEGER, boot_ns INTEGER, engine TEXT, kind INTEGER, op INTEGER, access INTEGER,
	action INTEGER, rule TEXT, reason TEXT, "by" TEXT, layer TEXT, errno INTEGER, hold_ns INTEGER,
	syscall TEXT, arch TEXT, count INTEGER, exit_code INTEGER, exit_signal INTEGER, detail TEXT,
	task_id TEXT, task_pid INTEGER, task_tid INTEGER, task_ppid INTEGER, task_exe TEXT,
	task_argv, task_argv_len INTEGER, task_cwd TEXT,
	object_kind INTEGER, object_path TEXT, object_raw TEXT, object_path_len INTEGER,
	object_raw_len INTEGER, object_dev INTEGER, object_ino INTEGER, object_mode INTEGER,
	object_addr TEXT, object_port INTEGER, object_family INTEGER, object_proto TEXT, object_own INTEGER,
	target_kind INTEGER, target_path TEXT, target_raw TEXT, target_path_len INTEGER,
	target_raw_len INTEGER, target_dev INTEGER, target_ino INTEGER, target_mode INTEGER,
	target_addr TEXT, target_port INTEGER, target_family INTEGER, target_proto TEXT, target_own INTEGER,
	chain BLOB,
	PRIMARY KEY (sid, seq)
) WITHOUT ROWID;
CREATE INDEX events_denied ON events (sid, seq) WHERE action >= 2;
`, `
ALTER TABLE events ADD COLUMN flags INTEGER;
ALTER TABLE events ADD COLUMN mode INTEGER;
ALTER TABLE events ADD COLUMN born INTEGER;
ALTER TABLE events ADD COLUMN interps;
ALTER TABLE events ADD COLUMN interp_lines;
ALTER TABLE events ADD COLUMN alike;
ALTER TABLE events ADD COLUMN alike_len INTEGER;
ALTER TABLE events ADD COLUMN caller;
ALTER TABLE events ADD COLUMN caller_len INTEGER;
`, `
CREATE TABLE blocks (
	sid      INTEGER NOT NULL,
	first    INTEGER NOT NULL,
	last     INTEGER NOT NULL,
	start_ns INTEGER NOT NULL,
	end_ns   INTEGER NOT NULL,
	kinds    INTEGER NOT NULL,
	ops      INTEGER NOT NULL,
	actions  INTEGER NOT NULL,
	data     BLOB NOT NULL
);
CREATE UNIQUE INDEX blocks_place ON blocks (sid, last);
`}

// migrate brings the file to the version of this program.
func migrate(ctx context.Context, db *sql.DB) error {
	version, err := userVersion(ctx, db)
	if err != nil || version == len(migrations) {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // back to the pool
	return transact(ctx, conn, func() error {
		// Another process may have been first.
		version, err := userVersion(ctx, conn)
		if err != nil {
			return err
		}
		for ; version < len(migrations); version++ {
			if _, err := conn.ExecContext(ctx, migrations[version]); err != nil {
				return fmt.Errorf("migrate to version %d: %w", version+1, err)
			}
		}
		_, err = conn.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version))
		return err
	})
}

func userVersion(ctx context.Context, db interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}) (version int, err error) {
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return 0, err
	}
	if version > len(migrations) {
		return 0, fmt.Errorf("its version is %d, this reeve knows %d; use a newer reeve", version, len(migrations))
	}
	return version, nil
}

// transact runs f in a transaction that has the write lock from the start, so
// that it waits for other writers here and nowhere else.
func transact(ctx context.Context, conn *sql.Conn, f func() error) error {
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := f()
	if err == nil {
		if _, err = conn.ExecContext(ctx, "COMMIT"); err == nil {
			return nil
		}
	}
	// Not ctx: it may be why we are here.
	if _, rerr := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK"); rerr != nil {
		return fmt.Errorf("%w (roll back: %w)", err, rerr)
	}
	return err
}
