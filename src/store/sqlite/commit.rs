//! Writes transitions: the hot path.

mod statements;

use std::sync::Arc;

use windlass_statemachine::{
    CommitId, Fence, StateKind, TaskId, TaskState, machine::Write, size::Size,
};

use self::statements::{ENDS, ENDS_AT_ONCE, KEEPS, KEEPS_AT_ONCE, RELEASES, RELEASES_AT_ONCE};
use super::{
    batch::Batch,
    claim_cache::CachedClaim,
    codes::{Log, from_code, micros},
    command,
    counts::{Group, Move, group_columns},
    dependencies,
    errors::Stop,
    failures, limits, log_lines, texts, transaction,
};
use crate::store::{
    Claim, Commit, Error, Logged, Transaction,
    rules::{
        self,
        commit::{Place, Stored},
    },
};

/// A commit with its JSON texts. They are made before the transaction begins, outside of the one
/// thread that writes.
pub(super) struct Prepared {
    claim: Claim,
    write: Result<Texts, Error>,
    log: Option<Arc<[Logged]>>,
}

struct Texts {
    code: StateKind,
    follows: i64,
    version: i64,
    id: Option<CommitId>,
    data_version: u32,
    since: i64,
    due: Option<i64>,
    deadline: Option<i64>,
    state: String,
    /// The bytes of data and result. With the props, they count against the limit.
    size: Size,
    lines: Vec<Log>,
    outcomes: Vec<(i64, String)>,
    drop_claim: bool,
    failure: i64,
    waits: i64,
    waited_for: Vec<TaskId>,
    effects: Option<transaction::Prepared>,
}

impl Prepared {
    pub(super) fn new(commit: Commit) -> Self {
        Self {
            write: texts(commit.claim.fence, commit.write),
            claim: commit.claim,
            log: commit.log,
        }
    }
}

fn texts(fence: Fence, write: Write) -> Result<Texts, Error> {
    let (state, size) = (&write.state, Size::of_write(&write));
    let lines = rules::history::lines(fence, &write);
    // No line of a commit needs a number or a lease.
    let lines = lines.iter().map(|what| Log::of(what, 0, 0)).collect();
    let ends_claim = rules::history::ends_claim(&write);
    let outcomes = write
        .outcomes
        .iter()
        .map(|(order, outcome)| command::outcome_text(outcome).map(|text| (*order as i64, text)));
    let has_effects = !write.effects.is_empty();
    let effects = has_effects.then(|| Transaction::from(write.effects));
    Ok(Texts {
        code: state.code(),
        follows: write.follows as i64,
        version: state.version as i64,
        id: state.commit,
        data_version: state.data_version,
        since: micros(state.since),
        due: state.due().map(micros),
        deadline: state.deadline().map(micros),
        size,
        state: match texts::to_json(state) {
            Ok(text) => text,
            Err(Stop::Refused(error)) => return Err(error),
            Err(Stop::Sql(error)) => return Err(Error::unavailable("write a state", error)),
        },
        outcomes: outcomes.collect::<Result<_, _>>()?,
        lines,
        drop_claim: ends_claim,
        failure: failures::number(rules::failures::of(state).as_deref()),
        waits: dependencies::column(state),
        waited_for: dependencies::waited_for(state).to_vec(),
        effects: effects.map(transaction::Prepared::new),
    })
}

/// A task, as a commit reads it.
struct Held {
    head: CachedClaim,
    pending: i64,
    /// The bytes of the props.
    props: usize,
    version: i64,
    owner: Option<i64>,
    limited: i64,
}

pub(super) fn commit(batch: &mut Batch<'_>, commit: &Prepared) -> Result<(), Stop> {
    let claim = &commit.claim;
    if let Ok(texts) = &commit.write
        && texts.is_plain()
        && at_once(batch, claim, texts)?
    {
        return log_lines::of_commit(batch, claim, commit.log.as_deref());
    }
    // The transaction has already ended expired leases, so their claims have no owner.
    let held = batch.first(
        concat!(
            "SELECT s.last, s.pending, s.size, s.version, s.owner, s.limited, ",
            group_columns!(),
            " FROM windlass_states s WHERE s.n = ?1 AND s.fence = ?2"
        ),
        (claim.token as i64, claim.fence.0 as i64),
        |row| {
            let head = CachedClaim {
                last: row.get(0)?,
                group: Group::read(row, 6)?,
            };
            let held = Held {
                head,
                pending: row.get(1)?,
                props: row.get::<_, i64>(2)? as usize,
                version: row.get(3)?,
                owner: row.get(4)?,
                limited: row.get(5)?,
            };
            Ok(held)
        },
    )?;
    let Some(held) = held else {
        return Err(Stop::Refused(Error::fenced(&claim.task)));
    };
    let is_live = held.owner == Some(claim.lease as i64);
    let texts = match &commit.write {
        // Either this commit was applied before, and its answer was lost; or another write of the
        // claim was applied.
        Ok(texts) if texts.follows != held.version => {
            return followed(batch, claim, texts, is_live);
        }
        _ if !is_live => {
            return Err(Stop::Refused(Error::fenced(&claim.task)));
        }
        Ok(texts) => texts,
        Err(error) => return Err(error.clone().into()),
    };
    rules::size::check(texts.size, held.props, batch.limits.max_bytes)?;
    let index = |batch: &mut Batch<'_>| match (held.head.group.waits, texts.waits) {
        (0, 0) => Ok(()),
        _ => dependencies::put(batch, claim.token as i64, texts.waits, &texts.waited_for),
    };
    let Some(effects) = &texts.effects else {
        index(batch)?;
        let head = write(batch, claim, texts, &held)?;
        remember(batch, claim, texts, head);
        free(batch, claim, texts, held.limited)?;
        return log_lines::of_commit(batch, claim, commit.log.as_deref());
    };
    batch.all_or_nothing(|batch| {
        index(batch)?;
        write(batch, claim, texts, &held)?;
        log_lines::of_commit(batch, claim, commit.log.as_deref())?;
        free(batch, claim, texts, held.limited)?;
        let author = (claim.token as i64, &claim.task);
        batch.on_behalf_of_task(author, |batch| {
            transaction::effects(batch, effects, &claim.task)
        })
    })
}

/// Decides a write that does not follow the stored version.
fn followed(
    batch: &mut Batch<'_>,
    claim: &Claim,
    texts: &Texts,
    is_live: bool,
) -> Result<(), Stop> {
    let stored = batch.first(
        "SELECT version, state FROM windlass_states WHERE n = ?1",
        [claim.token as i64],
        |row| {
            let state = row.get_ref(1)?.as_bytes().unwrap_or_default();
            let state = serde_json::from_slice::<TaskState>(state).ok();
            Ok((row.get::<_, i64>(0)?, state.and_then(|state| state.commit)))
        },
    )?;
    let (version, commit) = stored.unwrap_or_default();
    let stored = Stored {
        version: version as u64,
        commit,
    };
    let place = Place {
        follows: texts.follows as u64,
        id: texts.id,
    };
    match place.is_applied(&claim.task, stored) {
        Ok(_) => Ok(()),
        Err(_) if !is_live => Err(Stop::Refused(Error::fenced(&claim.task))),
        Err(error) => Err(Stop::Refused(error)),
    }
}

/// Frees the slots of limits, if the write ends the claim.
fn free(batch: &mut Batch<'_>, claim: &Claim, texts: &Texts, limited: i64) -> Result<(), Stop> {
    if limited != 0 && texts.drop_claim {
        let could_run = texts.code == StateKind::Runnable;
        limits::claim_ended(batch, claim.token as i64, limited, could_run)?;
    }
    Ok(())
}

impl Texts {
    /// Returns whether the write changes only the state and the history.
    fn is_plain(&self) -> bool {
        let alone = self.effects.is_none() && self.waits == 0;
        alone && self.outcomes.is_empty()
    }

    /// Returns the group of the task after the write.
    fn group(&self, before: Group) -> Group {
        let ends = self.code.is_terminal();
        Group {
            code: from_code(self.code),
            version: match ends {
                // The write of an end leaves the column as it is.
                true => before.version,
                false => self.data_version.into(),
            },
            claimed: !ends && !self.drop_claim,
            waits: self.waits.min(1),
            failure: self.failure,
            ..before
        }
    }

    /// Returns the largest size of the props next to this write.
    fn room(&self, max_bytes: usize) -> i64 {
        match self.size.bytes() {
            0 => i64::MAX,
            bytes => max_bytes.checked_sub(bytes).map_or(-1, |room| room as i64),
        }
    }
}

/// Writes a plain transition with a single access to the row, if the task's newest change is its claim or the
/// change that this process wrote last. Otherwise, and if waits or limits end with the claim, writes nothing
/// and returns `false`.
fn at_once(batch: &mut Batch<'_>, claim: &Claim, texts: &Texts) -> Result<bool, Stop> {
    let n = claim.token as i64;
    let Some(CachedClaim { last: head, group }) = batch.claim_cache.of(n) else {
        return Ok(false);
    };
    let last = match texts.lines.len() {
        0 => head,
        lines => batch.next() + lines as i64 - 1,
    };
    let to = texts.group(group);
    let step = Move::between(group, to);
    let (code, version, state) = (from_code(texts.code), texts.version, &texts.state);
    let (fence, lease) = (claim.fence.0 as i64, claim.lease as i64);
    let (room, follows) = (texts.room(batch.limits.max_bytes), texts.follows);
    let written = if texts.code.is_terminal() {
        let since = texts.since;
        let at = (
            n,
            code,
            last,
            version,
            state,
            since,
            fence,
            lease,
            head,
            room,
            follows,
            group.kind,
            group.code,
            group.version,
            texts.failure,
        );
        batch.write_state(ENDS_AT_ONCE, at, step)?
    } else {
        let sql = match texts.drop_claim {
            true => RELEASES_AT_ONCE,
            false => KEEPS_AT_ONCE,
        };
        let (due, data, deadline) = (texts.due, texts.data_version, texts.deadline);
        let at = (
            n,
            code,
            due,
            last,
            version,
            state,
            data,
            deadline,
            fence,
            lease,
            head,
            room,
            follows,
            group.kind,
            group.code,
            group.version,
        );
        batch.write_state(sql, at, step)?
    };
    if written == 0 {
        return Ok(false);
    }
    let mut prev = head;
    for line in &texts.lines {
        prev = batch.change(n, prev, *line)?;
    }
    remember(batch, claim, texts, CachedClaim { last, group: to });
    Ok(true)
}

/// Remembers the present state of the task for the next commit of the claim.
fn remember(batch: &Batch<'_>, claim: &Claim, texts: &Texts, head: CachedClaim) {
    let n = claim.token as i64;
    if texts.drop_claim || texts.code.is_terminal() {
        batch.claim_cache.forget(n);
    } else {
        batch.claim_cache.set(n, head);
    }
}

/// Writes the transition, and returns the new state of the task's row.
fn write(
    batch: &mut Batch<'_>,
    claim: &Claim,
    texts: &Texts,
    held: &Held,
) -> Result<CachedClaim, Stop> {
    let n = claim.token as i64;
    let (mut last, mut pending) = (held.head.last, held.pending);
    let group = texts.group(held.head.group);
    let step = Move::between(held.head.group, group);
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
        let at = (n, code, last, version, state, texts.since, texts.failure);
        batch.write_state(ENDS, at, step)?;
    } else {
        let sql = if texts.drop_claim { RELEASES } else { KEEPS };
        let (due, data, deadline) = (texts.due, texts.data_version, texts.deadline);
        let at = (n, code, due, last, pending, version, state, data, deadline);
        batch.write_state(sql, at, step)?;
    }
    Ok(CachedClaim { last, group })
}
