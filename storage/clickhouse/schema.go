package clickhouse

import (
	"context"
	"fmt"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// migrations bring a database from one version to the next; %s is its name.
// They are only ever appended, and each may run twice. Rows lie in the order of
// replay. ReplacingMergeTree and the deduplication window drop repetitions that
// two collectors insert at once; see Append for those of one.
var migrations = []string{
	`CREATE TABLE IF NOT EXISTS %s.events (
	` + ddl() + `
) ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(time)
ORDER BY (session, seq)
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 8192`,
	// A database that is made now has them from the start.
	`ALTER TABLE %s.events ` + addColumns(2),
}

func addColumns(version int) string {
	var out []string
	for i := range columns {
		if c := &columns[i]; c.since == version {
			out = append(out, "ADD COLUMN IF NOT EXISTS `"+c.name+"` "+c.ddl)
		}
	}
	return strings.Join(out, ", ")
}

func ddl() string {
	lines := make([]string, len(columns))
	for i := range columns {
		lines[i] = "`" + columns[i].name + "` " + columns[i].ddl
	}
	return strings.Join(lines, ",\n\t")
}

func (s *Store) migrate(ctx context.Context, conn driver.Conn) error {
	version, err := s.version(ctx, conn)
	if err != nil {
		return err
	}
	if version > len(migrations) {
		return fmt.Errorf("its version is %d, this reeve knows %d; use a newer reeve", version, len(migrations))
	}
	if version == len(migrations) {
		return nil
	}
	for _, stmt := range []string{
		`CREATE DATABASE IF NOT EXISTS ` + s.database,
		`CREATE TABLE IF NOT EXISTS ` + s.database + `.migrations
			(version UInt32, applied DateTime DEFAULT now()) ENGINE = MergeTree ORDER BY version`,
	} {
		if err := conn.Exec(ctx, stmt); err != nil {
			return err
		}
	}
	for ; version < len(migrations); version++ {
		if err := conn.Exec(ctx, fmt.Sprintf(migrations[version], s.database)); err != nil {
			return fmt.Errorf("migrate to version %d: %w", version+1, err)
		}
		err := conn.Exec(ctx, fmt.Sprintf(`INSERT INTO %s.migrations (version) VALUES (%d)`, s.database, version+1))
		if err != nil {
			return fmt.Errorf("migrate to version %d: %w", version+1, err)
		}
	}
	return nil
}

// version is that of the database; 0 when it is not there.
func (s *Store) version(ctx context.Context, conn driver.Conn) (int, error) {
	var version uint32
	err := conn.QueryRow(ctx, `SELECT max(version) FROM `+s.database+`.migrations`).Scan(&version)
	if missing(err) {
		return 0, nil
	}
	return int(version), err
}
