//! The memory of an idle worker of windlass and one peer, beside jobs that are due in a year.

use super::{
    StepResult,
    catalog::Serves,
    flow::Run,
    program::Memory,
    report::Report,
    rounds::Pair,
    store::{Side, Work},
};

/// Callers that submit at once, and handlers.
const SLOTS: usize = 64;
/// Seconds for the submits of one side, and with `--quick`.
const LIMIT: u64 = 300;
const QUICK_LIMIT: u64 = 30;
const MIB: f64 = 1024.0 * 1024.0;

/// What a worker with this many sleeping jobs uses.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Asleep {
    jobs: usize,
    memory: Memory,
}

pub(super) fn measure(run: &mut Run<'_>, report: &mut Report) -> StepResult<()> {
    let mut values: [Pair; 6] = Default::default();
    for (at, side) in run.sides().into_iter().enumerate() {
        let one = asleep(run, side, 1, report)?;
        let all = asleep(run, side, run.options.sleepers, report)?;
        for (row, value) in figures(one, all).into_iter().enumerate() {
            values[row][at].push(value);
        }
    }
    let measures = [
        "sleeping jobs",
        "resident set of the worker with 1 sleeping job, MiB",
        "resident set of the worker with all, MiB",
        "resident set for each sleeping job, B",
        "files with all, MiB",
        "files for each sleeping job, B",
    ];
    report.rows(run.contender.name, SLOTS, measures.into_iter().zip(values));
    Ok(())
}

/// The figures in the order of the rows. What a job adds is the difference to the worker with one job.
fn figures(one: Asleep, all: Asleep) -> [f64; 6] {
    let more = all.jobs.saturating_sub(one.jobs) as f64;
    [
        all.jobs as f64,
        one.memory.resident / MIB,
        all.memory.resident / MIB,
        (all.memory.resident - one.memory.resident) / more,
        all.memory.files / MIB,
        (all.memory.files - one.memory.files) / more,
    ]
}

/// Submits jobs that are due in a year, and starts a worker beside them.
fn asleep(run: &mut Run<'_>, side: Side, jobs: usize, report: &mut Report) -> StepResult<Asleep> {
    let store = run.store(side)?;
    let limit = if run.options.quick {
        QUICK_LIMIT
    } else {
        LIMIT
    };
    let work = |name, count| Work {
        name,
        count,
        slots: SLOTS,
        limit,
    };
    let submitted = store.run(work("later", jobs))?.done;
    let worker = store.run(work("sleepers", submitted))?;
    let memory = worker.memory.ok_or("sleepers has no memory")?;
    let mut note = |text: &str| {
        let text = format!("{} with sleeping jobs: {text}", side.program);
        report.note(run.contender.name, &text);
    };
    if submitted < jobs {
        note(&format!(
            "the submits were cut off after {limit} s, with {submitted} of {jobs} jobs"
        ));
    }
    if side.serves == Some(Serves::Redis) && jobs > 1 {
        note("its files are the resident set of Redis, which has its data in memory");
    }
    for (name, text) in &worker.facts {
        note(&format!("{name}: {text}"));
    }
    Ok(Asleep {
        jobs: submitted,
        memory,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_adds_the_difference_to_one_job() {
        let asleep = |jobs, resident, files| Asleep {
            jobs,
            memory: Memory { resident, files },
        };
        let [jobs, one, all, each, files, file] = figures(
            asleep(1, 2.0 * MIB, 1_000.0),
            asleep(101, 2.0 * MIB + 3_000.0, MIB),
        );
        assert_eq!((jobs, one, each), (101.0, 2.0, 30.0));
        assert!(all > 2.0 && files == 1.0);
        assert_eq!(file, (MIB - 1_000.0) / 100.0);
    }
}
