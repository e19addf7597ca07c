//! The instructions and allocations of the hot paths, compared with recorded bounds: the program of
//! `benches/counts/` under valgrind. Both stay the same on a machine that has other work.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::{Deserialize, Serialize};

use crate::{cargo, root, tools};

/// Two runs of each path: the difference is what the items between them cost.
const ITEMS: [u64; 2] = [400, 1_400];
/// How far a count may be above the recorded one: compilers and C libraries differ by less.
const MORE: f64 = 1.10;
/// A count below this share of the recorded one should be recorded.
const LESS: f64 = 0.90;

/// What one item of a path costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Cost {
    instructions: f64,
    allocations: f64,
}

/// The recorded counts: `benches/counts/recorded.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Recorded {
    /// The compiler, as `rustc --version` prints it.
    rustc: String,
    paths: BTreeMap<String, Cost>,
}

pub(crate) fn counts(args: &[String]) -> Result<(), String> {
    let record = match args {
        [] => false,
        [only] if only == "--record" => true,
        _ => {
            let given = args.join(" ");
            return Err(format!(
                "could not run counts with '{given}': its only option is --record"
            ));
        }
    };
    let valgrind = tools::valgrind()?;
    let program = program()?;
    let mut found = BTreeMap::new();
    for path in output(Command::new(&program).arg("--paths"))?.lines() {
        let cost = cost(&valgrind, &program, path)?;
        eprintln!(
            "    {path}: {:.0} instructions, {:.1} allocations",
            cost.instructions, cost.allocations
        );
        found.insert(path.to_owned(), cost);
    }
    let rustc = output(Command::new("rustc").arg("--version"))?;
    let rustc = rustc.trim().to_owned();
    let file = root().join("benches/counts/recorded.json");
    if record {
        let recorded = Recorded {
            rustc,
            paths: found,
        };
        let text = serde_json::to_string_pretty(&recorded).map_err(|e| e.to_string())?;
        return fs::write(&file, text + "\n").map_err(|e| format!("{}: {e}", file.display()));
    }
    let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let recorded: Recorded =
        serde_json::from_str(&text).map_err(|e| format!("{}: {e}", file.display()))?;
    let verdict = compare(&recorded.paths, &found);
    for note in &verdict.lower {
        eprintln!("==> {note}");
    }
    if verdict.failed.is_empty() {
        return Ok(());
    }
    let compilers = match recorded.rustc == rustc {
        true => String::new(),
        false => format!(" (recorded with {}, counted with {rustc})", recorded.rustc),
    };
    Err(format!(
        "counts: {}{compilers}; if the cost is worth it, record it: cargo xtask counts --record",
        verdict.failed.join("; ")
    ))
}

/// What differs from the recorded counts by more than the tolerance.
#[derive(Debug, Default, PartialEq, Eq)]
struct Verdict {
    failed: Vec<String>,
    lower: Vec<String>,
}

fn compare(recorded: &BTreeMap<String, Cost>, found: &BTreeMap<String, Cost>) -> Verdict {
    let mut verdict = Verdict::default();
    for path in recorded.keys().filter(|path| !found.contains_key(*path)) {
        verdict
            .failed
            .push(format!("{path} is recorded and was not counted"));
    }
    for (path, cost) in found {
        let Some(before) = recorded.get(path) else {
            verdict.failed.push(format!("{path} is not recorded"));
            continue;
        };
        for (what, before, now) in [
            ("instructions", before.instructions, cost.instructions),
            ("allocations", before.allocations, cost.allocations),
        ] {
            let change = format!("{path} takes {now:.1} {what}, {before:.1} are recorded");
            if now > before * MORE {
                verdict.failed.push(change);
            } else if now < before * LESS {
                let record = "lower it with cargo xtask counts --record";
                verdict.lower.push(format!("{change}: {record}"));
            }
        }
    }
    verdict
}

/// The program, as cargo names it.
fn program() -> Result<PathBuf, String> {
    eprintln!("==> the program that is counted");
    let messages = output(
        cargo()
            .args(["bench", "--package", "windlass", "--bench", "counts"])
            .args(["--no-run", "--message-format=json-render-diagnostics"]),
    )?;
    let executable = messages.lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let counts = message["target"]["name"] == "counts";
        counts.then(|| message["executable"].as_str().map(PathBuf::from))?
    });
    executable.ok_or_else(|| "cargo names no program for the bench counts".into())
}

/// The cost of one item, from two runs with each tool.
fn cost(valgrind: &Path, program: &Path, path: &str) -> Result<Cost, String> {
    let each = |tool: &[&str], read: fn(&str) -> Option<f64>| -> Result<f64, String> {
        let mut totals = [0.0; 2];
        for (total, items) in totals.iter_mut().zip(ITEMS) {
            let printed = under(valgrind, tool, program, path, items)?;
            *total = read(&printed).ok_or_else(|| {
                format!("valgrind printed no count that is known for {path}: {printed}")
            })?;
        }
        Ok((totals[1] - totals[0]) / (ITEMS[1] - ITEMS[0]) as f64)
    };
    let instructions = [
        "--tool=cachegrind",
        "--cache-sim=no",
        "--cachegrind-out-file=/dev/null",
    ];
    let allocations = [
        "--tool=memcheck",
        "--leak-check=no",
        "--undef-value-errors=no",
    ];
    Ok(Cost {
        instructions: each(&instructions, instructions_of)?,
        allocations: each(&allocations, allocations_of)?,
    })
}

/// What valgrind prints about this many items of a path.
fn under(
    valgrind: &Path,
    tool: &[&str],
    program: &Path,
    path: &str,
    items: u64,
) -> Result<String, String> {
    let folder = root().join("target/counts");
    // The store of the run before.
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut run = Command::new(valgrind);
    run.args(tool).arg(program).arg(path);
    let run = run.arg(items.to_string()).arg(&folder);
    let done = run
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{}: {e}", valgrind.display()))?;
    let printed = String::from_utf8_lossy(&done.stderr).into_owned();
    match done.status.success() {
        true => Ok(printed),
        false => Err(format!("{path} under valgrind: {}: {printed}", done.status)),
    }
}

/// `==1== I   refs:      75,082,627`
fn instructions_of(printed: &str) -> Option<f64> {
    let line = printed.lines().find(|line| line.contains("refs:"))?;
    number(line.rsplit_once(':')?.1)
}

/// `==1==   total heap usage: 42,329 allocs, 42,261 frees, 12,056,464 bytes allocated`
fn allocations_of(printed: &str) -> Option<f64> {
    let line = printed.split("total heap usage:").nth(1)?;
    number(line.split(" allocs").next()?)
}

fn number(text: &str) -> Option<f64> {
    text.trim().replace(',', "").parse().ok()
}

/// What a program prints, which must succeed.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("{name}: could not be started: {e}"))?;
    match done.status.success() {
        true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
        false => Err(format!("{name}: {}", done.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(path: &str, instructions: f64, allocations: f64) -> BTreeMap<String, Cost> {
        let cost = Cost {
            instructions,
            allocations,
        };
        [(path.to_owned(), cost)].into()
    }

    #[test]
    fn a_count_within_a_tenth_passes() {
        for (instructions, allocations) in [(1_100.0, 11.0), (1_000.0, 10.0), (900.0, 9.0)] {
            let found = costs("a", instructions, allocations);
            let verdict = compare(&costs("a", 1_000.0, 10.0), &found);
            assert_eq!(verdict, Verdict::default());
        }
    }

    #[test]
    fn more_instructions_or_allocations_fail_and_fewer_are_reported() {
        let recorded = costs("a", 1_000.0, 10.0);
        let verdict = compare(&recorded, &costs("a", 1_101.0, 8.9));
        assert_eq!(
            verdict.failed,
            ["a takes 1101.0 instructions, 1000.0 are recorded"]
        );
        assert_eq!(
            verdict.lower,
            [
                "a takes 8.9 allocations, 10.0 are recorded: lower it with cargo xtask counts --record"
            ]
        );
        let verdict = compare(&recorded, &costs("a", 1_000.0, 11.1));
        assert_eq!(
            verdict.failed,
            ["a takes 11.1 allocations, 10.0 are recorded"]
        );
    }

    #[test]
    fn a_path_that_is_missing_on_either_side_fails() {
        let verdict = compare(&costs("a", 1.0, 1.0), &costs("b", 1.0, 1.0));
        assert_eq!(
            verdict.failed,
            ["a is recorded and was not counted", "b is not recorded"]
        );
    }

    #[test]
    fn what_valgrind_prints_is_read() {
        assert_eq!(
            instructions_of("==7== \n==7== I   refs:      75,082,627\n"),
            Some(75_082_627.0)
        );
        let heap = "==7== HEAP SUMMARY:\n==7==   total heap usage: 42,329 allocs, 42,261 frees, 12 bytes allocated\n";
        assert_eq!(allocations_of(heap), Some(42_329.0));
        assert_eq!(instructions_of(heap), None);
    }
}
