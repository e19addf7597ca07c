//! Writes transitions: the hot path.

use windlass_statemachine::{Fence, StateKind, Task, machine::Write, size::Size};

use super::{
    batch::Batch,
    codes::{Log, from_code, micros},
    command,
    errors::Stop,
    submit, texts,
};
use crate::store::{Claim, Commit, Error, IfExists, Submit, rules};

/// A commit with its JSON texts. They are made before the transaction begins, outside of the one
/// thread that writes.
pub(super) struct Prepared {
    claim: Claim,
    write: Result<Texts, Error>,
}

struct Texts {
    code: StateKind,
    version: i64,
    data_version: u32,
    since: i64,
    due: Option<i64>,
    state: String,
    /// The bytes of data and result. With the props, they count against the limit.
    size: Size,
    lines: Vec<Log>,
    outcomes: Vec<(i64, String)>,
    drop_claim: bool,
    submit: Vec<Submit>,
    send: Vec<command::Prepared>,
}

impl Prepared {
    pub(super) fn new(commit: Commit) -> Self {
        Self {
            write: texts(commit.claim.fence, commit.write),
            claim: commit.claim,
        }
    }
}

fn texts(fence: Fence, write: Write) -> Result<Texts, Error> {
    let state = &write.state;
    let lines = rules::history::lines(fence, &write);
    // No line of a commit needs a number or a lease.
    let lines = lines.iter().map(|what| Log::of(what, 0, 0)).collect();
    let ends_claim = rules::history::ends_claim(&write);
    let outcomes = write
        .outcomes
        .iter()
        .map(|(order, outcome)| command::outcome_text(outcome).map(|text| (*order as i64, text)));
    let submit = |task: Task| Submit {
        task,
        if_exists: IfExists::Refuse,
    };
    let sends = write.effects.send.into_iter();
    Ok(Texts {
        code: state.code(),
        version: state.version as i64,
        data_version: state.data_version,
        since: micros(state.since),
        due: state.due().map(micros),
        size: Size::of(state),
        state: match texts::to_json(state) {
            Ok(text) => text,
            Err(Stop::Refused(error)) => return Err(error),
            Err(Stop::Sql(error)) => return Err(Error::unavailable("write a state", error)),
        },
        outcomes: outcomes.collect::<Result<_, _>>()?,
        lines,
        drop_claim: ends_claim,
        submit: write.effects.submit.into_iter().map(submit).collect(),
        send: sends.map(command::Prepared::new).collect(),
    })
}

pub(super) fn commit(batch: &mut Batch<'_>, commit: &Prepared) -> Result<(), Stop> {
    let claim = &commit.claim;
    // The transaction has reaped ended leases, so their claims have no owner.
    let held = batch.first(
        "SELECT last, pending, size, version, owner FROM states WHERE n = ?1 AND fence = ?2",
        (claim.token as i64, claim.fence.0 as i64),
        |row| {
            Ok((
                row.get(0)?,
                row.get(1)?,
                row.get::<_, i64>(2)?,
                row.get::<_, i64>(3)?,
                row.get::<_, Option<i64>>(4)?,
            ))
        },
    )?;
    let Some((last, pending, props, version, owner)) = held else {
        return Err(Stop::Refused(Error::fenced(&claim.task)));
    };
    let texts = match &commit.write {
        // The commit was applied before, and its answer was lost.
        Ok(texts) if texts.version == version => return Ok(()),
        _ if owner != Some(claim.lease as i64) => {
            return Err(Stop::Refused(Error::fenced(&claim.task)));
        }
        Ok(texts) => texts,
        Err(error) => return Err(error.clone().into()),
    };
    rules::size::check(texts.size, props as usize, batch.limits.max_bytes)?;
    if texts.submit.is_empty() && texts.send.is_empty() {
        return write(batch, claim, texts, last, pending);
    }
    batch.all_or_nothing(|batch| {
        write(batch, claim, texts, last, pending)?;
        for new in &texts.submit {
            submit::submit(batch, new)?;
        }
        for send in &texts.send {
            command::send(batch, send)?;
        }
        Ok(())
    })
}

// One statement for each set of indexed columns that change: an index is not looked at when its
// column keeps its value.
const ENDS: &str = "UPDATE states SET code = ?2, due = NULL, last = ?3, pending = 0, version = ?4,
    state = ?5, lost_by = NULL, owner = NULL, ended_at = ?6 WHERE n = ?1";
const RELEASES: &str =
    "UPDATE states SET code = ?2, due = ?3, last = ?4, pending = ?5, version = ?6,
    state = ?7, data_version = ?8, lost_by = NULL, owner = NULL WHERE n = ?1";
const KEEPS: &str = "UPDATE states SET code = ?2, due = ?3, last = ?4, pending = ?5, version = ?6,
    state = ?7, data_version = ?8, lost_by = NULL WHERE n = ?1";

fn write(
    batch: &mut Batch<'_>,
    claim: &Claim,
    texts: &Texts,
    mut last: i64,
    mut pending: i64,
) -> Result<(), Stop> {
    let n = claim.token as i64;
    for line in &texts.lines {
        last = batch.change(n, last, *line)?;
    }
    for (order, outcome) in &texts.outcomes {
        pending -= i64::from(command::settle(batch, n, *order, outcome)?);
    }
    let (code, version, state) = (from_code(texts.code), texts.version, &texts.state);
    if texts.code.is_terminal() {
        if pending > 0 {
            command::reject_waiting(batch, n, texts.code)?;
        }
        batch.run(ENDS, (n, code, last, version, state, texts.since))?;
    } else {
        let sql = if texts.drop_claim { RELEASES } else { KEEPS };
        let (due, data) = (texts.due, texts.data_version);
        batch.run(sql, (n, code, due, last, pending, version, state, data))?;
    }
    Ok(())
}
