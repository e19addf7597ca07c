//! `cargo xtask mutants simulation`: old defects come back, one at a time, and the simulation has to find them.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use super::{
    Edit,
    defects::{DEFECTS, Defect, Expected},
    plant,
    seeds::{Bounds, Ran, run},
};
use crate::{root, tools};

/// The seeds without a defect, which have to be clean.
const CLEAN: Bounds = Bounds {
    first: 1,
    count: 20,
    over: Duration::from_secs(600),
    silence: Duration::from_secs(120),
};

/// The seeds with a defect.
const PLANTED: Bounds = Bounds {
    first: 1,
    count: 300,
    over: Duration::from_secs(120),
    silence: Duration::from_secs(60),
};

/// The option that leaves out the defects that the simulation is not expected to find.
const EXPECTED: &str = "--expected";

/// Returns the name and the edits of each defect.
fn all() -> impl Iterator<Item = (&'static str, &'static [Edit])> {
    defects().map(|defect| (defect.name, defect.edits))
}

fn defects() -> impl Iterator<Item = &'static Defect> {
    DEFECTS.iter().copied().flatten()
}

impl Defect {
    fn is_expected(&self) -> bool {
        matches!(self.expected, Expected::Found)
    }
}

/// Plants the defects, or those of these names, and fails if one that has to be found is not.
pub(crate) fn simulation(args: &[String]) -> Result<(), String> {
    let is_option = |arg: &&String| *arg == EXPECTED;
    let is_short = args.iter().any(|arg| arg == EXPECTED);
    let names: Vec<&String> = args.iter().filter(|arg| !is_option(arg)).collect();
    let known = |name: &str| defects().any(|defect| defect.name == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        return Err(format!("no defect has the name '{unknown}'"));
    }
    let chosen = |defect: &&Defect| {
        (names.is_empty() || names.iter().any(|name| *name == defect.name))
            && (!is_short || defect.is_expected())
    };
    let chosen: Vec<&Defect> = defects().filter(chosen).collect();
    let program = build()?;
    match run(&program, None, CLEAN)? {
        Ran::Clean(seeds) if seeds == CLEAN.count => {}
        ran => {
            return Err(format!(
                "the simulation is not clean without a defect: {ran}"
            ));
        }
    }
    let ran = run_all(&program, &chosen)?;
    print!("{}", table(&ran));
    let is_missed =
        |(defect, ran): &&(&Defect, Ran)| defect.is_expected() && matches!(ran, Ran::Clean(_));
    let missed: Vec<&str> = ran
        .iter()
        .filter(is_missed)
        .map(|(of, _)| of.name)
        .collect();
    let is_found = |(_, ran): &&(&Defect, Ran)| matches!(ran, Ran::Failed { .. });
    let found = ran.iter().filter(is_found).count();
    println!("\n{found} of {} defects were found", ran.len());
    match missed[..] {
        [] => Ok(()),
        _ => Err(format!("missed: {}", missed.join(", "))),
    }
}

/// Builds the simulation with all defects, once.
fn build() -> Result<PathBuf, String> {
    let (tree, target) = plant(&root().join("target/mutants/simulation"), all())?;
    let mut build = Command::new("cargo");
    build
        .current_dir(&tree)
        .args(["build", "--release", "--package", "windlass-simulation"])
        .args(["--all-features", "--bin", "windlass-simulate"])
        .env("CARGO_TARGET_DIR", &target)
        .env("PROTOC", tools::protoc(&root())?)
        // The switches are code that no one reads.
        .env("RUSTFLAGS", "--cap-lints=warn -Awarnings");
    crate::run("cargo build of the planted defects", &mut build)?;
    Ok(target.join("release/windlass-simulate"))
}

/// Runs the defects, as many at a time as there are processors. Returns them in their order.
fn run_all<'d>(program: &Path, defects: &[&'d Defect]) -> Result<Vec<(&'d Defect, Ran)>, String> {
    let (next, ran) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(defect) = defects.get(at) else {
                return;
            };
            let of = run(program, Some(defect.name), PLANTED);
            if let Ok(of) = &of {
                eprintln!("==> {}: {of}", defect.name);
            }
            let mut ran = ran.lock().unwrap_or_else(PoisonError::into_inner);
            ran.push((at, of));
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut ran = ran.into_inner().unwrap_or_else(PoisonError::into_inner);
    ran.sort_by_key(|(at, _)| *at);
    let ran = ran.into_iter();
    ran.map(|(at, of)| Ok((defects[at], of?))).collect()
}

/// The longest failure in the table.
const LONGEST: usize = 160;

/// Returns the table of docs/internals/simulation.md.
fn table(ran: &[(&Defect, Ran)]) -> String {
    let mut text =
        "| defect | row of the track record | seeds | what the failure says, or what the \
                    simulation lacks |\n|---|---|---|---|\n"
            .to_owned();
    for (defect, ran) in ran {
        let (seeds, why) = match (ran, &defect.expected) {
            (Ran::Failed { seeds, why }, _) => (seeds.to_string(), why.as_str()),
            (Ran::Clean(_), Expected::Found) => ("not found".to_owned(), "MISSED"),
            (Ran::Clean(_), Expected::Lacks(what)) => ("not found".to_owned(), *what),
        };
        let why: String = why.replace('|', "/").chars().take(LONGEST).collect();
        let Defect { name, row, .. } = defect;
        text.push_str(&format!("| `{name}` | {row} | {seeds} | {why} |\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, fs};

    use super::*;
    use crate::planted::switched;

    #[test]
    fn every_defect_has_its_places_in_the_tree_and_its_row_in_the_track_record() {
        let texts = switched(&root(), all()).unwrap();
        let record = fs::read_to_string(root().join("docs/internals/track-record.md")).unwrap();
        let mut names = HashSet::new();
        for defect in defects() {
            let Defect { name, row, .. } = defect;
            assert!(names.insert(name), "two defects have the name {name}");
            let rows = record.lines().filter(|line| line.contains(row)).count();
            assert_eq!(rows, 1, "{name}: {rows} rows have '{row}'");
            let switch = format!("crate::is_planted(\"{name}\")");
            let switches: usize = texts
                .values()
                .map(|text| text.matches(&switch).count())
                .sum();
            assert_eq!(switches, defect.edits.len(), "{name} is not planted");
        }
        assert!(names.len() >= 45, "{} defects", names.len());
    }

    #[test]
    fn the_table_has_a_row_for_each_defect_and_names_what_is_missed() {
        let defect = |expected| Defect {
            name: "d",
            row: "A row",
            edits: &[],
            expected,
        };
        let (found, lacks) = (defect(Expected::Found), defect(Expected::Lacks("clocks")));
        let why = "1 violations: a|b".to_owned();
        let ran = [
            (&found, Ran::Failed { seeds: 3, why }),
            (&found, Ran::Clean(300)),
            (&lacks, Ran::Clean(300)),
        ];
        let table = table(&ran);
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| `d` | A row | 3 | 1 violations: a/b |",
                "| `d` | A row | not found | MISSED |",
                "| `d` | A row | not found | clocks |",
            ]
        );
    }
}
