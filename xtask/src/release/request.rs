//! The arguments of `cargo xtask release`.

use std::path::PathBuf;

use super::{
    part::{PARTS, Part},
    targets,
};

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Build and try what this machine can build.
    Rehearse(Rehearsal),
    /// Print whether a release is due.
    Plan,
    /// Write the version and this date, `YYYY-MM-DD`.
    Prepare { date: String },
    /// Print the section of the changelog.
    Notes,
    /// Write and check the sums of the files in a folder.
    Sums { folder: PathBuf },
}

/// A rehearsal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rehearsal {
    /// In the order in which they are built.
    pub(super) parts: Vec<Part>,
    /// What the program is built for; this machine by default.
    pub(super) target: Option<String>,
    /// The newest glibc that the program may need.
    pub(super) glibc: Option<(u32, u32)>,
    /// A program that was built before, to pack instead of building one.
    pub(super) program: Option<PathBuf>,
}

/// The refusal without a form that builds nothing for others.
const REFUSED: &str = "could not publish from here: the workflow `release` publishes, after the changelog of a version has its \
    date (docs/internals/releasing.md); `cargo xtask release --dry-run` rehearses it";

/// Reads the arguments.
///
/// # Errors
///
/// Names the argument that is wrong, and what is right.
pub(super) fn read(args: &[String]) -> Result<Request, String> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["--plan"] => Ok(Request::Plan),
        ["--notes"] => Ok(Request::Notes),
        ["--prepare", date] => Ok(Request::Prepare {
            date: date.to_owned(),
        }),
        ["--prepare"] => {
            Err("could not prepare: --prepare needs the date of the release, YYYY-MM-DD".to_owned())
        }
        ["--sums", folder] => Ok(Request::Sums {
            folder: folder.into(),
        }),
        ["--sums"] => Err("could not write the sums: --sums needs a folder".to_owned()),
        ["--dry-run", ref rest @ ..] => rehearsal(rest).map(Request::Rehearse),
        _ => Err(REFUSED.to_owned()),
    }
}

fn rehearsal(args: &[&str]) -> Result<Rehearsal, String> {
    let mut asked = Rehearsal {
        parts: PARTS.map(|(_, part)| part).to_vec(),
        target: None,
        glibc: None,
        program: None,
    };
    let mut args = args.iter();
    while let Some(option) = args.next() {
        let mut value = || {
            let value = args.next();
            value.ok_or_else(|| format!("could not rehearse: {option} needs a value"))
        };
        match *option {
            "--only" => asked.parts = parts(value()?)?,
            "--target" => asked.target = Some(known(value()?)?),
            "--glibc" => asked.glibc = Some(glibc(value()?)?),
            "--program" => asked.program = Some(value()?.into()),
            other => {
                return Err(format!(
                    "could not rehearse with {other}: the options are --only, --target, --glibc and --program"
                ));
            }
        }
    }
    Ok(asked)
}

/// The parts of a list such as `program,wheel`, in their order.
fn parts(list: &str) -> Result<Vec<Part>, String> {
    let names: Vec<&str> = list.split(',').collect();
    if let Some(unknown) = names
        .iter()
        .find(|name| PARTS.iter().all(|(n, _)| n != *name))
    {
        let known = PARTS.map(|(name, _)| name).join(", ");
        return Err(format!(
            "could not rehearse '{unknown}': the parts are {known}"
        ));
    }
    let asked = PARTS.iter().filter(|(name, _)| names.contains(name));
    Ok(asked.map(|(_, part)| *part).collect())
}

fn known(target: &str) -> Result<String, String> {
    if targets::TARGETS.iter().any(|t| t.triple == target) {
        return Ok(target.to_owned());
    }
    let known = targets::TARGETS.map(|t| t.triple).join(", ");
    Err(format!(
        "could not rehearse the target '{target}': a release has {known}"
    ))
}

fn glibc(text: &str) -> Result<(u32, u32), String> {
    let numbers = text
        .split_once('.')
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    numbers.ok_or_else(|| {
        format!("could not read --glibc '{text}': a version is two numbers, such as 2.28")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn read(line: &str) -> Result<Request, String> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        super::read(&args)
    }

    #[test]
    fn a_release_without_dry_run_is_refused_and_the_workflow_named() {
        for line in ["", "0.2.0", "--only program"] {
            let error = read(line).unwrap_err();
            assert!(
                error.contains("the workflow `release` publishes"),
                "{error}"
            );
            assert!(error.contains("--dry-run"), "{error}");
        }
    }

    #[test]
    fn a_rehearsal_has_every_part_or_those_that_are_named_in_their_order() {
        let Ok(Request::Rehearse(all)) = read("--dry-run") else {
            panic!("no rehearsal");
        };
        assert_eq!(all.parts, [Part::Crates, Part::Program, Part::Wheel]);
        let line = "--dry-run --only wheel,program --target x86_64-unknown-linux-gnu --glibc 2.28";
        let Ok(Request::Rehearse(some)) = read(line) else {
            panic!("no rehearsal");
        };
        assert_eq!(some.parts, [Part::Program, Part::Wheel]);
        assert_eq!(some.target.as_deref(), Some("x86_64-unknown-linux-gnu"));
        assert_eq!(some.glibc, Some((2, 28)));
    }

    #[test]
    fn a_wrong_argument_is_named_with_what_is_right() {
        for (line, named) in [
            (
                "--dry-run --only wheels",
                "'wheels': the parts are crates, program, wheel",
            ),
            (
                "--dry-run --target sparc",
                "'sparc': a release has x86_64-unknown-linux-gnu",
            ),
            ("--dry-run --glibc two", "'two': a version is two numbers"),
            ("--dry-run --only", "--only needs a value"),
            ("--dry-run --quick", "--quick: the options are --only"),
            ("--prepare", "YYYY-MM-DD"),
            ("--sums", "needs a folder"),
        ] {
            let error = read(line).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
