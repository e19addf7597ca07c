//! What the program is released for.

use std::process::Command;

use super::{VERSION, part::Part};

/// The features of the released program: every store and every exporter.
pub(super) const FEATURES: &str = "etcd,otlp";

/// A kind of machine.
#[derive(Debug)]
pub(super) struct Target {
    /// The name that Rust has for it.
    pub(super) triple: &'static str,
    /// Whether a wheel is built for it. A machine with musl gets the Python package alone, from the source distribution.
    pub(super) has_wheel: bool,
}

/// The targets of a release. The workflow `release` has a job for each (a test compares them).
pub(super) const TARGETS: [Target; 5] = [
    Target {
        triple: "x86_64-unknown-linux-gnu",
        has_wheel: true,
    },
    Target {
        triple: "aarch64-unknown-linux-gnu",
        has_wheel: true,
    },
    Target {
        triple: "x86_64-unknown-linux-musl",
        has_wheel: false,
    },
    Target {
        triple: "aarch64-unknown-linux-musl",
        has_wheel: false,
    },
    Target {
        triple: "aarch64-apple-darwin",
        has_wheel: true,
    },
];

/// The name of the archive of a target and of the folder in it, without the ending. `cargo binstall` looks for it by
/// `package.metadata.binstall` of cli/Cargo.toml (a test compares the two).
pub(super) fn archive(triple: &str) -> String {
    format!("windlass-v{VERSION}-{triple}")
}

/// The target of this machine.
///
/// # Errors
///
/// When rustc does not name it.
pub(super) fn host() -> Result<String, String> {
    let rustc = Command::new("rustc").arg("-vV").output();
    let rustc = rustc.map_err(|e| format!("rustc could not be started: {e}"))?;
    let text = String::from_utf8_lossy(&rustc.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| "rustc -vV names no host".to_owned())
}

/// What a rehearsal of these parts for one target has not built, a line each.
pub(super) fn not_built(built: &str, parts: &[Part]) -> Vec<String> {
    let mut lines = Vec::new();
    for target in TARGETS.iter().filter(|target| target.triple != built) {
        let wheel = match target.has_wheel {
            true => " and its wheel",
            false => "",
        };
        lines.push(format!(
            "the program for {}{wheel} (workflow `release`, a job of its own)",
            target.triple
        ));
    }
    for (part, what) in [
        (Part::Crates, "the packages of the crates (--only crates)"),
        (
            Part::Program,
            "the program for this target (--only program)",
        ),
        (
            Part::Wheel,
            "the wheel and the source distribution (--only wheel)",
        ),
    ] {
        if !parts.contains(&part) {
            lines.push(what.to_owned());
        }
    }
    lines.push(
        "the container image, which needs a builder and the network (job `image`)".to_owned(),
    );
    lines.push("the provenance, which GitHub signs (job `publish`)".to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_built_here_is_named() {
        let all = not_built(
            "x86_64-unknown-linux-gnu",
            &[Part::Crates, Part::Program, Part::Wheel],
        );
        assert_eq!(all.len(), TARGETS.len() - 1 + 2, "{all:#?}");
        let text = all.join("\n");
        for named in [
            "aarch64-unknown-linux-gnu and its wheel",
            "x86_64-unknown-linux-musl (",
            "image",
            "provenance",
        ] {
            assert!(text.contains(named), "{named}: {text}");
        }
        let some = not_built("x86_64-unknown-linux-gnu", &[Part::Program]).join("\n");
        assert!(
            some.contains("--only crates") && some.contains("--only wheel"),
            "{some}"
        );
    }

    /// `cargo binstall windlass-cli` asks for the address that the workflow uploads to.
    #[test]
    fn binstall_looks_for_the_archives_of_a_release() {
        let manifest = std::fs::read_to_string(crate::root().join("cli/Cargo.toml")).unwrap();
        let metadata = manifest
            .split_once("[package.metadata.binstall]")
            .unwrap()
            .1;
        let value = |key: &str| {
            let line = metadata
                .lines()
                .find(|line| line.starts_with(&format!("{key} = ")));
            let value = line.unwrap().split_once(" = ").unwrap().1;
            value.trim_matches('"').to_owned()
        };
        for target in TARGETS {
            let filled = |template: &str| {
                template
                    .replace("{ repo }", "REPO")
                    .replace("{ version }", VERSION)
                    .replace("{ target }", target.triple)
                    .replace("{ bin }", "windlass")
                    .replace("{ binary-ext }", "")
            };
            let archive = archive(target.triple);
            assert_eq!(
                filled(&value("pkg-url")),
                format!("REPO/releases/download/v{VERSION}/{archive}.tar.gz")
            );
            assert_eq!(filled(&value("bin-dir")), format!("{archive}/windlass"));
        }
        assert_eq!(value("pkg-fmt"), "tgz");
    }
}
