//! Mutation tests: `cargo mutants` changes the pure code in one place at a time, and the tests of
//! that code have to fail. `.cargo/mutants.toml` and `.cargo/mutants-etcd.toml` say which files are
//! changed.

use std::{fmt, fs, path::Path, process::Command};

use crate::{cargo, planted, root, tools};

/// One package and its tests.
struct Pass {
    name: &'static str,
    package: &'static str,
    /// Arguments of `cargo mutants`.
    features: &'static [&'static str],
    /// Names the files that are changed, and the exclusions.
    config: &'static str,
    /// Arguments of `cargo test`. Examples in the docs do not count as tests.
    tests: &'static [&'static str],
    /// The least share of caught mutants, in percent.
    goal: f64,
}

const PASSES: [Pass; 3] = [
    Pass {
        name: "statemachine",
        package: "windlass-statemachine",
        features: &[],
        config: ".cargo/mutants.toml",
        tests: &["--lib", "--tests"],
        goal: 97.0,
    },
    Pass {
        name: "library",
        package: "windlass",
        features: &["--no-default-features", "--features", "testing"],
        config: ".cargo/mutants.toml",
        tests: &["--lib"],
        goal: 95.0,
    },
    Pass {
        name: "etcd",
        package: "windlass",
        features: &["--no-default-features", "--features", "etcd,testing"],
        config: ".cargo/mutants-etcd.toml",
        tests: &["--lib", "store::etcd"],
        goal: 97.0,
    },
];

/// How much memory a process may take, in KiB. A mutant that never stops allocating would take all
/// of it otherwise.
const MEMORY: &str = "8388608";

pub(crate) fn mutants(args: &[String]) -> Result<(), String> {
    match args.first().map(String::as_str) {
        Some("workers") => return planted::workers(&args[1..]),
        Some("simulation") => return planted::simulation(&args[1..]),
        _ => {}
    }
    let named = |pass: &&Pass| args.first().is_some_and(|name| name == pass.name);
    let only = PASSES.iter().find(named);
    let args = if only.is_some() { &args[1..] } else { args };
    is_installed()?;
    let mut failed = Vec::new();
    for pass in PASSES
        .iter()
        .filter(|pass| only.is_none_or(|only| only.name == pass.name))
    {
        match run(pass, args) {
            Ok(score) => {
                eprintln!("==> mutants of {}: {score}", pass.package);
                if score.percent() < pass.goal {
                    failed.push(format!(
                        "{}: {score}; the goal is {} %",
                        pass.package, pass.goal
                    ));
                }
            }
            Err(why) => failed.push(why),
        }
    }
    if only.is_none() {
        let planted = [planted::workers(&[]), planted::simulation(&[])];
        failed.extend(planted.into_iter().filter_map(Result::err));
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(failed.join("; "))
    }
}

fn is_installed() -> Result<(), String> {
    let version = cargo().args(["mutants", "--version"]).output();
    if version.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    Err("could not run cargo-mutants: it is not installed; \
         install it with `cargo install cargo-mutants --locked`"
        .into())
}

fn run(pass: &Pass, args: &[String]) -> Result<Score, String> {
    let root = root();
    let output = root.join("target/mutants").join(pass.name);
    fs::create_dir_all(&output)
        .map_err(|e| format!("could not create {}: {e}", output.display()))?;
    eprintln!("==> mutants of {}: {}", pass.package, output.display());
    let mut command = Command::new("sh");
    command
        .current_dir(&root)
        .args([
            "-c",
            "ulimit -v \"$1\" && shift && exec \"$@\"",
            "sh",
            MEMORY,
        ])
        .args(["cargo", "mutants", "--package", pass.package])
        .args(pass.features)
        .args(["--config", pass.config])
        .arg("--output")
        .arg(&output)
        .args(args)
        .arg("--")
        .args(pass.tests)
        .env("PROTOC", tools::protoc(&root)?)
        .env("CARGO_PROFILE_DEV_DEBUG", "none")
        // A failure of a property is enough: its smallest case is of no use here, nor is a file
        // that makes the next mutant begin with it.
        .env("PROPTEST_MAX_SHRINK_ITERS", "16")
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
    let status = command
        .status()
        .map_err(|e| format!("could not start cargo mutants: {e}"))?;
    // 2: mutants were missed; 3: the tests of some took too long. The score judges both.
    match status.code() {
        Some(0 | 2 | 3) => Score::read(&output.join("mutants.out")),
        _ => Err(format!("mutants of {}: {status}", pass.package)),
    }
}

/// The result of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Score {
    /// Mutants whose tests failed or did not end.
    caught: usize,
    missed: usize,
    /// Mutants that do not compile. They say nothing about the tests.
    unviable: usize,
}

impl Score {
    fn read(folder: &Path) -> Result<Self, String> {
        let lines = |name: &str| {
            let file = folder.join(name);
            fs::read_to_string(&file)
                .map(|text| text.lines().count())
                .map_err(|e| format!("could not read {}: {e}", file.display()))
        };
        Ok(Self {
            caught: lines("caught.txt")? + lines("timeout.txt")?,
            missed: lines("missed.txt")?,
            unviable: lines("unviable.txt")?,
        })
    }

    fn percent(self) -> f64 {
        match self.caught + self.missed {
            0 => 100.0,
            viable => 100.0 * self.caught as f64 / viable as f64,
        }
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (viable, percent) = (self.caught + self.missed, self.percent());
        write!(f, "{} of {viable} caught ({percent:.1} %), ", self.caught)?;
        write!(
            f,
            "{} missed, {} do not compile",
            self.missed, self.unviable
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_that_a_pass_changes_exist() {
        for pass in PASSES {
            let text = fs::read_to_string(root().join(pass.config)).unwrap();
            let (_, globs) = text.split_once("examine_globs = [").unwrap();
            let globs = globs.split(']').next().unwrap_or_default();
            let mut count = 0;
            for glob in globs.split('"').skip(1).step_by(2) {
                // A folder with all its files, or a file.
                let path = root().join(glob.trim_end_matches("**/*.rs").trim_end_matches("*.rs"));
                assert!(path.exists(), "{}: {glob} names no file", pass.config);
                count += 1;
            }
            assert!(count > 0, "{} names no files", pass.config);
        }
    }

    #[test]
    fn a_timeout_is_caught_and_what_does_not_compile_is_not_counted() {
        let folder = std::env::temp_dir().join(format!("xtask-mutants-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in [
            ("caught.txt", "a\nb\n"),
            ("timeout.txt", "c\n"),
            ("missed.txt", "d\n"),
            ("unviable.txt", "e\nf\n"),
        ] {
            fs::write(folder.join(name), text).unwrap();
        }
        let score = Score::read(&folder).unwrap();
        fs::remove_file(folder.join("missed.txt")).unwrap();
        let incomplete = Score::read(&folder).unwrap_err();
        fs::remove_dir_all(&folder).unwrap();
        let text = "3 of 4 caught (75.0 %), 1 missed, 2 do not compile";
        assert_eq!(score.to_string(), text);
        assert!(incomplete.contains("could not read"), "{incomplete}");
    }
}
