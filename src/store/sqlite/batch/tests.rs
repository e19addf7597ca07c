use windlass_statemachine::StateKind;

use super::*;
use crate::store::{Error, sqlite::schema};

const CHANGES: &str = "SELECT seq, n FROM windlass_changes ORDER BY seq";

fn file() -> Connection {
    let mut conn = Connection::open_in_memory().unwrap();
    schema::make(&mut conn, "memory").unwrap();
    conn
}

fn with_batch<T>(conn: &Connection, work: impl FnOnce(Batch<'_>) -> T) -> T {
    let environment = Environment {
        limits: Limits::default(),
        clock: &LeaseClock::new(None),
        claim_cache: &ClaimCache::default(),
        kinds: &Kinds::default(),
    };
    work(Batch::new(conn, Timestamp::UNIX_EPOCH, environment).unwrap())
}

fn changes(conn: &Connection) -> Vec<(i64, i64)> {
    let mut changes = conn.prepare(CHANGES).unwrap();
    let rows = changes.query_map((), |row| Ok((row.get(0)?, row.get(1)?)));
    rows.unwrap().collect::<Sql<_>>().unwrap()
}

fn submitted() -> Log {
    Log::submitted(StateKind::Runnable)
}

#[test]
fn every_change_is_in_the_table_at_the_end() {
    let conn = file();
    let numbers: Vec<_> = (1..=100).map(|n| (n, 1000 + n)).collect();
    with_batch(&conn, |mut batch| {
        for (seq, n) in &numbers {
            assert_eq!(batch.change(*n, 0, submitted()).unwrap(), *seq);
        }
        batch.finish().unwrap();
    });
    assert_eq!(changes(&conn), numbers);
}

#[test]
fn a_refusal_takes_back_the_changes_of_its_savepoint_only() {
    let conn = file();
    conn.execute_batch("BEGIN").unwrap();
    with_batch(&conn, |mut batch| {
        batch.change(7, 0, submitted()).unwrap();
        let refused = batch.all_or_nothing(|batch| {
            for n in 100..150 {
                batch.change(n, 0, submitted())?;
            }
            Err::<(), _>(Stop::Refused(Error::unavailable("work", "no")))
        });
        assert!(refused.is_err());
        assert_eq!(batch.change(8, 0, submitted()).unwrap(), 2);
        batch.finish().unwrap();
    });
    assert_eq!(changes(&conn), [(1, 7), (2, 8)]);
}

#[test]
fn a_number_that_is_not_the_counted_one_is_an_error() {
    let conn = file();
    with_batch(&conn, |mut batch| {
        batch.change(7, 0, submitted()).unwrap();
        let other = "INSERT INTO windlass_changes VALUES (5, 0, 0, 0, 0, 0, 0, 0, 0)";
        conn.execute(other, ()).unwrap();
        let Err(error) = batch.finish() else {
            panic!("the change has the number 6");
        };
        assert!(error.to_string().contains("number after the newest"));
    });
}
