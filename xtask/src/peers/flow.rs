//! Submits and drained tasks of windlass and one peer, in alternating rounds.

use std::{collections::BTreeMap, path::Path};

use super::{
    StepResult,
    build::Programs,
    catalog::Contender,
    options::Options,
    program::Figures,
    report::Report,
    rounds::{Pair, order},
    store::{Side, Store, Work},
    syncs::Tracer,
};

/// How many tasks are submitted, and run, at once.
const SLOTS: [usize; 2] = [64, 1000];
/// Tasks of the run that counts syncs.
const TRACED: usize = 5_000;

/// A comparison of one contender with windlass.
pub(super) struct Run<'a> {
    pub(super) options: &'a Options,
    pub(super) folder: &'a Path,
    pub(super) contender: &'static Contender,
    pub(super) programs: &'a mut Programs,
    pub(super) tracer: Option<&'a Tracer>,
}

impl Run<'_> {
    pub(super) fn measure(&mut self, report: &mut Report) -> StepResult<()> {
        for slots in SLOTS {
            self.with_slots(slots, report)?;
        }
        Ok(())
    }

    fn with_slots(&mut self, slots: usize, report: &mut Report) -> StepResult<()> {
        let mut values: BTreeMap<(usize, &str), Pair> = BTreeMap::new();
        let mut keep = |at: usize, measure: (usize, &'static str), value: f64| {
            values.entry(measure).or_default()[at].push(value);
        };
        for round in 0..self.options.rounds {
            let [submitted, drained] = self.round(slots, round, report)?;
            for at in [0, 1] {
                keep(at, (0, "submitted a second"), submitted[at].per_second());
                keep(at, (1, "drained a second"), drained[at].per_second());
                keep(
                    at,
                    (2, "processor time of a submit, µs"),
                    submitted[at].micros(),
                );
                keep(
                    at,
                    (3, "processor time of a drained task, µs"),
                    drained[at].micros(),
                );
            }
        }
        if let Some(tracer) = self.tracer {
            for (at, side) in self.sides().into_iter().enumerate() {
                let [submits, drains] = self.syncs(tracer, side, slots)?;
                keep(at, (4, "syncs for 1,000 submits"), submits);
                keep(at, (5, "syncs for 1,000 drained tasks"), drains);
            }
        }
        let measures = values
            .into_iter()
            .map(|((_, measure), pair)| (measure, pair));
        report.rows(self.contender.name, slots, measures);
        Ok(())
    }

    pub(super) fn sides(&self) -> [Side; 2] {
        let windlass = Side {
            program: self.contender.jobs.windlass(),
            setting: self.contender.beside,
            serves: None,
        };
        let peer = Side {
            program: self.contender.program,
            setting: self.contender.setting,
            serves: self.contender.serves,
        };
        [windlass, peer]
    }

    /// A new store for a side.
    pub(super) fn store(&mut self, side: Side) -> StepResult<Store> {
        let folder = self.folder.join(side.program);
        Store::new(side, self.programs.get(side.program)?, folder)
    }

    /// Both submit, then both drain what they have submitted. Which one begins alternates.
    fn round(
        &mut self,
        slots: usize,
        round: usize,
        report: &mut Report,
    ) -> StepResult<[[Figures; 2]; 2]> {
        let sides = self.sides();
        let stores = [self.store(sides[0])?, self.store(sides[1])?];
        let counts = [self.options.tasks; 2];
        let submitted = self.both("submit", &stores, counts, slots, round)?;
        let counts = [submitted[0].done, submitted[1].done];
        let drained = self.both("drain", &stores, counts, slots, round)?;
        for at in [0, 1] {
            let program = sides[at].program;
            if submitted[at].done < self.options.tasks {
                let text = format!(
                    "{program} with {slots} callers did not submit all tasks within {} s",
                    self.options.limit
                );
                report.note(self.contender.name, &text);
            }
            if drained[at].done < counts[at] {
                let text = format!(
                    "{program} with {slots} slots did not drain all tasks within {} s",
                    self.options.limit
                );
                report.note(self.contender.name, &text);
            }
            for (name, text) in submitted[at].facts.iter().chain(&drained[at].facts) {
                report.note(self.contender.name, &format!("{program}: {name}: {text}"));
            }
        }
        Ok([submitted, drained])
    }

    /// Runs a job on each of the stores.
    fn both(
        &self,
        name: &'static str,
        stores: &[Store; 2],
        counts: [usize; 2],
        slots: usize,
        round: usize,
    ) -> StepResult<[Figures; 2]> {
        let run = |at: usize| {
            stores[at].run(Work {
                name,
                count: counts[at],
                slots,
                limit: self.options.limit,
            })
        };
        let [first, second] = order(round);
        let (begins, follows) = (run(first)?, run(second)?);
        Ok(if first == 0 {
            [begins, follows]
        } else {
            [follows, begins]
        })
    }

    /// Syncs for 1,000 submits, and for 1,000 drained tasks.
    fn syncs(&mut self, tracer: &Tracer, side: Side, slots: usize) -> StepResult<[f64; 2]> {
        let store = self.store(side)?;
        let calls = self.folder.join("calls");
        let mut count = TRACED.min(self.options.tasks);
        let mut each = [0.0, 0.0];
        for (at, name) in ["submit", "drain"].into_iter().enumerate() {
            let work = Work {
                name,
                count,
                slots,
                limit: self.options.limit,
            };
            let (figures, syncs) = store.syncs(work, tracer, &calls)?;
            count = figures.done;
            each[at] = syncs as f64 * 1000.0 / count as f64;
        }
        Ok(each)
    }
}
