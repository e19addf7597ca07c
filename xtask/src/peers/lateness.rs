//! The time from a submit to the start of the handler on an idle worker, of windlass and one peer, in rounds.

use super::{
    StepResult,
    flow::Run,
    report::Report,
    rounds::{Pair, order},
    store::Work,
};

/// Handlers at once.
const SLOTS: usize = 64;
/// Submits a second, as in `benches/peers/common/src/lateness.rs`.
const RATE: usize = 100;
const MEASURES: [&str; 2] = [
    "submit to start on an idle worker, p50 ms",
    "submit to start on an idle worker, p99 ms",
];

pub(super) fn measure(run: &mut Run<'_>, report: &mut Report) -> StepResult<()> {
    let seconds = if run.options.quick { 2 } else { 5 };
    let work = Work {
        name: "lateness",
        count: RATE * seconds,
        slots: SLOTS,
        limit: run.options.limit,
    };
    let mut values: [Pair; 2] = Default::default();
    for round in 0..run.options.rounds {
        for at in order(round) {
            let store = run.store(run.sides()[at])?;
            let figures = store.run(work)?;
            let percentiles = figures.percentiles.ok_or("lateness has no percentiles")?;
            for (row, value) in percentiles.into_iter().enumerate() {
                values[row][at].push(value);
            }
        }
    }
    let measures = MEASURES.into_iter().zip(values);
    report.rows(run.contender.name, SLOTS, measures);
    Ok(())
}
