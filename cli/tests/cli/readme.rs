//! The command of the README, run as it is written.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{fs, path::Path, process::Command};

/// The program's place in the README: a build of this package.
const BUILD: &str = "cargo run -q -p windlass-cli --";

#[test]
fn the_command_of_the_readme_makes_a_checksum_of_each_file_once() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let block = readme.split("```sh\n").nth(1).unwrap();
    let written = block.split("\n```").next().unwrap();
    assert_eq!(written.matches(BUILD).count(), 1, "{written}");
    let command = written.replace(BUILD, env!("CARGO_BIN_EXE_windlass"));

    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("a.rs", "a"), ("b.rs", "b"), ("target/c.rs", "c")] {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let run = || {
        let mut sh = Command::new("timeout");
        sh.args(["60", "sh", "-c", &command]).current_dir(&folder);
        sh.env("XDG_DATA_HOME", folder.path().join("data"));
        sh.env_remove("WINDLASS_STORE").env_remove("WINDLASS_LOG");
        let done = sh.output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success(), "{said}");
        (String::from_utf8(done.stdout).unwrap(), said)
    };
    let (mut sums, said) = run();
    assert!(said.contains("2 lines: 2 completed"), "{said}");
    for name in ["./a.rs", "./b.rs"] {
        assert!(sums.contains(&format!("  {name}\n")), "{sums}");
    }
    (sums, _) = run();
    assert!(sums.contains("a.rs"), "the results are shown again: {sums}");
}
