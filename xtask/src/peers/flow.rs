//! Submits and drained tasks of windlass and one peer, in alternating rounds.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    Left,
    build::Programs,
    catalog::{Contender, Program, WINDLASS},
    options::Options,
    program::{Figures, Job, figures},
    report::{Report, Row},
    syncs::Tracer,
};

/// How many tasks are submitted, and run, at once.
const SLOTS: [usize; 2] = [64, 1000];
/// Tasks of the run that counts syncs.
const TRACED: usize = 5_000;

/// The two that are compared.
#[derive(Debug, Clone, Copy)]
struct Side {
    program: Program,
    setting: &'static str,
}

/// One contender beside windlass.
pub(super) struct Run<'a> {
    pub(super) options: &'a Options,
    pub(super) folder: &'a Path,
    pub(super) contender: &'static Contender,
    pub(super) programs: &'a mut Programs,
    pub(super) tracer: Option<&'a Tracer>,
}

/// The values of one measure: of windlass and of the peer.
type Pair = [Vec<f64>; 2];

impl Run<'_> {
    pub(super) fn measure(mut self, report: &mut Report) -> Left<()> {
        for slots in SLOTS {
            self.with_slots(slots, report)?;
        }
        Ok(())
    }

    fn with_slots(&mut self, slots: usize, report: &mut Report) -> Left<()> {
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
        for ((_, measure), [windlass, peer]) in values {
            report.row(Row {
                peer: self.contender.name,
                slots,
                measure,
                windlass,
                other: peer,
            });
        }
        Ok(())
    }

    fn sides(&self) -> [Side; 2] {
        let windlass = Side {
            program: WINDLASS,
            setting: self.contender.beside,
        };
        let peer = Side {
            program: self.contender.program,
            setting: self.contender.setting,
        };
        [windlass, peer]
    }

    /// Both submit, then both drain what they have submitted. Which one begins alternates.
    fn round(
        &mut self,
        slots: usize,
        round: usize,
        report: &mut Report,
    ) -> Left<[[Figures; 2]; 2]> {
        let sides = self.sides();
        let folders = [self.store("windlass")?, self.store("peer")?];
        let (mut submitted, mut drained) = ([None, None], [None, None]);
        for at in order(round) {
            let job = self.job("submit", &folders[at], sides[at], self.options.tasks, slots);
            let program = self.programs.get(sides[at].program)?;
            let figures = figures(Command::new(program).args(job.arguments())).map_err(|why| {
                format!("submit with {slots} callers: {}: {why}", sides[at].program)
            })?;
            submitted[at] = Some(figures);
        }
        for at in order(round) {
            let count = submitted[at].as_ref().map_or(0, |figures| figures.done);
            let job = self.job("drain", &folders[at], sides[at], count, slots);
            let program = self.programs.get(sides[at].program)?;
            let figures = figures(Command::new(program).args(job.arguments()))
                .map_err(|why| format!("drain with {slots} slots: {}: {why}", sides[at].program))?;
            if figures.done < count {
                report.note(
                    self.contender.name,
                    &format!(
                        "{} with {slots} slots drained {} of {count} tasks within {} s",
                        sides[at].program, figures.done, self.options.limit
                    ),
                );
            }
            drained[at] = Some(figures);
        }
        for folder in folders {
            fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        let both = |figures: [Option<Figures>; 2]| match figures {
            [Some(windlass), Some(peer)] => Ok([windlass, peer]),
            _ => Err("a side has no figures".to_owned()),
        };
        let (submitted, drained) = (both(submitted)?, both(drained)?);
        for (at, figures) in submitted.iter().chain(&drained).enumerate() {
            for (name, text) in &figures.facts {
                let side = sides[at % 2].program;
                report.note(self.contender.name, &format!("{side}: {name}: {text}"));
            }
        }
        Ok([submitted, drained])
    }

    /// Syncs for 1,000 submits, and for 1,000 drained tasks.
    fn syncs(&mut self, tracer: &Tracer, side: Side, slots: usize) -> Left<[f64; 2]> {
        let folder = self.store("traced")?;
        let calls = self.folder.join("calls");
        let program = self.programs.get(side.program)?;
        let mut count = TRACED.min(self.options.tasks);
        let mut each = [0.0, 0.0];
        for (at, name) in ["submit", "drain"].into_iter().enumerate() {
            let job = self.job(name, &folder, side, count, slots);
            let mut command = tracer.command(&program, &calls);
            let figures = figures(command.args(job.arguments()))
                .map_err(|why| format!("{name} under strace: {}: {why}", side.program))?;
            count = figures.done;
            each[at] = tracer.count(&calls)? as f64 * 1000.0 / count as f64;
        }
        fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(each)
    }

    fn job<'a>(
        &self,
        name: &'a str,
        dir: &'a Path,
        side: Side,
        count: usize,
        slots: usize,
    ) -> Job<'a> {
        Job {
            name,
            dir,
            setting: side.setting,
            count,
            slots,
            limit: self.options.limit,
        }
    }

    /// A new folder for a store.
    fn store(&self, name: &str) -> Left<PathBuf> {
        let folder = self.folder.join(name);
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(folder)
    }
}

/// Which side begins: windlass (0) in even rounds.
fn order(round: usize) -> [usize; 2] {
    if round.is_multiple_of(2) {
        [0, 1]
    } else {
        [1, 0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_alternate() {
        assert_eq!([order(0), order(1), order(2)], [[0, 1], [1, 0], [0, 1]]);
    }
}
