//! Workers of windlass and one peer that are killed, and the tasks that they leave to a second worker.

use std::{
    collections::HashMap,
    fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use super::{
    StepResult,
    flow::Run,
    program::figures,
    report::{NOT_DONE, Report},
    rounds::{Pair, order},
    store::{Side, Store, Work},
};

/// Handlers at once.
const SLOTS: usize = 64;
/// Tasks that are submitted before a kill.
const TASKS: usize = 2_000;
/// A side that has not done its tasks after this many kills is not killed again.
const PATIENCE: usize = 2;
/// A side whose kills have taken this long is not killed again.
const LIMIT: Duration = Duration::from_secs(15 * 60);
/// Bytes of a line of the file of runs: a number of 15 digits.
const LINE: u64 = 16;

/// What one kill has left.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Outcome {
    /// Tasks whose handler has never run.
    never: usize,
    /// Tasks whose handler has run more than once.
    twice: usize,
    /// From the kill until the second worker has ended; `None` after [`NOT_DONE`].
    seconds: Option<f64>,
}

pub(super) fn measure(run: &mut Run<'_>, report: &mut Report) -> StepResult<()> {
    let mut outcomes: [Vec<Outcome>; 2] = Default::default();
    let mut spent = [Duration::ZERO; 2];
    for kill in 0..run.options.kills {
        for at in order(kill) {
            if is_killed_again(&outcomes[at], spent[at]) {
                let begun = Instant::now();
                let outcome = one(run, run.sides()[at], kill)?;
                outcomes[at].push(outcome);
                spent[at] += begun.elapsed();
            }
        }
    }
    for (at, side) in run.sides().iter().enumerate() {
        let note = note(side.program, &outcomes[at], spent[at]);
        report.note(run.contender.name, &note);
    }
    let values = |measure: fn(&[Outcome]) -> Vec<f64>| -> Pair {
        [measure(&outcomes[0]), measure(&outcomes[1])]
    };
    let measures = [
        ("kills", values(|outcomes| vec![outcomes.len() as f64])),
        ("jobs lost in all kills", values(lost)),
        ("jobs that ran twice in all kills", values(twice)),
        ("from a kill until all are done, s", values(seconds)),
    ];
    report.rows(run.contender.name, SLOTS, measures);
    Ok(())
}

fn is_killed_again(outcomes: &[Outcome], spent: Duration) -> bool {
    let not_done = outcomes.iter().filter(|o| o.seconds.is_none());
    not_done.count() < PATIENCE && spent < LIMIT
}

/// The tasks that never ran where the store says that all are done. Unknown where no second worker got so far.
fn lost(outcomes: &[Outcome]) -> Vec<f64> {
    let mut done = outcomes.iter().filter(|o| o.seconds.is_some()).peekable();
    if done.peek().is_none() {
        return vec![f64::NAN];
    }
    vec![done.map(|o| o.never as f64).sum()]
}

fn twice(outcomes: &[Outcome]) -> Vec<f64> {
    vec![outcomes.iter().map(|o| o.twice as f64).sum()]
}

fn seconds(outcomes: &[Outcome]) -> Vec<f64> {
    let seconds = outcomes.iter().map(|o| o.seconds);
    seconds.map(|s| s.unwrap_or(f64::INFINITY)).collect()
}

fn note(program: &str, outcomes: &[Outcome], spent: Duration) -> String {
    let mut text = format!("{program}: {} kills", outcomes.len());
    if spent >= LIMIT {
        text.push_str(&format!(", none after {} s", LIMIT.as_secs()));
    }
    let waiting: Vec<_> = outcomes.iter().filter(|o| o.seconds.is_none()).collect();
    if !waiting.is_empty() {
        let never: usize = waiting.iter().map(|o| o.never).sum();
        text.push_str(&format!(
            "; not done after {} s in {} of them, where the handlers of {never} jobs had not run by then",
            NOT_DONE.as_secs(),
            waiting.len(),
        ));
    }
    text
}

/// Submits tasks, kills a worker that has run some of them, and starts another one.
fn one(run: &mut Run<'_>, side: Side, kill: usize) -> StepResult<Outcome> {
    let store = run.store(side)?;
    let work = |name, limit| Work {
        name,
        count: TASKS,
        slots: SLOTS,
        limit,
    };
    let submitted = store.run(work("submit", run.options.limit))?.done;
    if submitted < TASKS {
        return Err(format!("it submitted {submitted} of {TASKS} in time"));
    }
    let runs = run.folder.join("runs");
    let _ = fs::remove_file(&runs);
    // Kills come early and late: after an eighth to five eighths of the tasks.
    let after = TASKS * (1 + kill % 5) / 8;
    let work = work("kills", NOT_DONE.as_secs());
    let killed = killed(&store, work, &runs, after).map_err(|why| store.failed(work, &why))?;
    let mut second = store.command(work);
    second.arg(format!("runs={}", runs.display()));
    let figures = figures(&mut second, work.limit).map_err(|why| store.failed(work, &why))?;
    let seconds = killed.elapsed().as_secs_f64();
    let text = fs::read_to_string(&runs).map_err(|e| format!("{}: {e}", runs.display()))?;
    let [never, twice] = counted(&text)?;
    Ok(Outcome {
        never,
        twice,
        seconds: (figures.done == TASKS).then_some(seconds),
    })
}

/// Starts a worker and kills it when it has reported this many runs. Returns the time of the kill.
fn killed(store: &Store, work: Work, runs: &Path, after: usize) -> StepResult<Instant> {
    let mut worker = store.command(work);
    let worker = worker
        .arg(format!("runs={}", runs.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    let mut worker = worker.map_err(|e| format!("the worker could not be started: {e}"))?;
    let waited = until(&mut worker, runs, after);
    let killed = Instant::now();
    let _ = worker.kill();
    let status = worker.wait().map_err(|e| format!("the worker: {e}"))?;
    waited?;
    match status.signal() {
        Some(_) => Ok(killed),
        None => Err(format!("the worker ended before it was killed: {status}")),
    }
}

fn until(worker: &mut Child, runs: &Path, after: usize) -> StepResult<()> {
    let begun = Instant::now();
    while fs::metadata(runs).map_or(0, |m| m.len()) < after as u64 * LINE {
        if let Ok(Some(status)) = worker.try_wait() {
            return Err(format!("the worker ended before it was killed: {status}"));
        }
        if begun.elapsed() > NOT_DONE {
            return Err(format!(
                "the worker did not run {after} tasks within {NOT_DONE:?}"
            ));
        }
        sleep(Duration::from_micros(100));
    }
    Ok(())
}

/// The tasks that are not in a file of runs, and those that are there more than once.
fn counted(runs: &str) -> StepResult<[usize; 2]> {
    let mut times: HashMap<usize, usize> = HashMap::new();
    for line in runs.lines() {
        let number = line.parse();
        let number = number.map_err(|_| format!("the file of runs has the line '{line}'"))?;
        *times.entry(number).or_default() += 1;
    }
    let twice = times.values().filter(|count| **count > 1).count();
    let never = (0..TASKS).filter(|number| !times.contains_key(number));
    Ok([never.count(), twice])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted_by_task() -> StepResult<()> {
        let all: String = (0..TASKS).map(|n| format!("{n:015}\n")).collect();
        assert_eq!(counted(&all)?, [0, 0]);
        assert_eq!(counted(&format!("{all}{:015}\n{:015}\n", 7, 7))?, [0, 1]);
        assert_eq!(counted(&all[16..])?, [1, 0]);
        assert!(counted("7x").unwrap_err().contains("7x"));
        Ok(())
    }

    #[test]
    fn a_side_that_takes_too_long_is_not_killed_again() {
        let waits = Outcome::default();
        assert!(is_killed_again(&[waits], Duration::ZERO));
        assert!(!is_killed_again(&[waits, waits], Duration::ZERO));
        assert!(!is_killed_again(&[], LIMIT));
    }

    #[test]
    fn tasks_that_wait_are_not_lost() {
        let waits = Outcome {
            never: 9,
            ..Outcome::default()
        };
        let done = Outcome {
            never: 1,
            twice: 2,
            seconds: Some(0.5),
        };
        assert!(lost(&[waits])[0].is_nan());
        assert_eq!(lost(&[waits, done]), [1.0]);
        let text = note("peer", &[waits, done], Duration::ZERO);
        assert!(
            text.starts_with("peer: 2 kills; not done after 60 s in 1 of them"),
            "{text}"
        );
        assert!(text.contains("of 9 jobs"), "{text}");
        assert_eq!(note("peer", &[done], Duration::ZERO), "peer: 1 kills");
        let text = note("peer", &[done], LIMIT);
        assert_eq!(text, "peer: 1 kills, none after 900 s");
    }
}
