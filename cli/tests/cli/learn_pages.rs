//! The command lines of the tutorial and of the guides, run as they are written.
//!
//! A block `sh` is run by bash, all blocks of a page in one shell. The block `text` behind it has lines of its output, where
//! `…` stands for any text. A block behind "A file `NAME`" is written into that file. A block `sh,ignore` is not run; the
//! comment above it says why.

use std::{
    fs::{self, File},
    net::TcpListener,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

use crate::env::Env;

/// The longest time for the blocks of a page, in seconds.
const LIMIT: &str = "240";

/// Waits until a worker has logged a line, instead of two seconds.
const LOGGED: &str = "for _ in $(seq 300); do windlass logs album-0 | grep -q 'picture 1' && break; sleep 0.1; done\nwindlass list";

/// A block of a page.
struct Block<'a> {
    info: &'a str,
    text: &'a str,
    /// The last line above it.
    above: &'a str,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut parts = page.split("\n```");
    let mut above = parts.next().unwrap_or_default();
    let mut blocks = Vec::new();
    while let (Some(block), Some(next)) = (parts.next(), parts.next()) {
        let (info, text) = block.split_once('\n').unwrap();
        let last = above.trim_end().lines().last().unwrap_or_default();
        blocks.push(Block {
            info,
            text,
            above: last,
        });
        above = next;
    }
    blocks
}

/// The name in "A file `NAME`".
fn file_name(above: &str) -> Option<&str> {
    above.split_once("A file `")?.1.split('`').next()
}

/// Whether a line of the output has the parts of this line, in order.
fn has_line(out: &str, line: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    out.lines().any(|said| {
        let said = words(said);
        let mut rest = said.as_str();
        line.split('…')
            .map(words)
            .all(|part| match rest.split_once(&part) {
                Some((_, after)) => {
                    rest = after;
                    true
                }
                None => false,
            })
    })
}

/// Runs the blocks of a page, and compares what they print. Returns how many lines were compared.
fn run(page: &str) -> usize {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = fs::read_to_string(root.join("docs/learn").join(page)).unwrap();
    // The server of a page listens at a free port.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let env = Env::new();
    symlink(env!("CARGO_BIN_EXE_windlass"), env.path("windlass")).unwrap();

    let mut script = "set -e\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n".to_owned();
    let (mut runs, mut expected) = (0, Vec::new());
    for Block { info, text, above } in blocks(&text) {
        if let Some(name) = file_name(above) {
            env.write(name, &format!("{text}\n"));
        } else if info == "sh" {
            runs += 1;
            script.push_str(&format!("{text}\necho '@@'\n"));
        } else if info == "text" {
            expected.push((runs, text));
        } else if info == "sh,ignore" {
            assert!(
                above.starts_with("<!-- not run: "),
                "why is this not run? {text}"
            );
        }
    }
    let serve = format!("windlass serve --no-socket --listen 127.0.0.1:{port} ");
    let script = script.replace("windlass serve ", &serve);
    // On a busy machine the worker of the page takes longer until it has logged a line.
    let script = script.replace("sleep 2\nwindlass list", LOGGED);
    let out = env.path("output");
    let output = File::create(&out).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let status = Command::new("timeout")
        .args(["--kill-after=20", LIMIT, "bash", "-c", &script])
        .current_dir(env.path(""))
        .env("PATH", format!("{}:{path}", env.path("")))
        .env("XDG_DATA_HOME", env.path("data"))
        .env("XDG_CONFIG_HOME", env.path("config"))
        .env("PYTHONPATH", root.join("sdk/python/src"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("WINDLASS_URL", format!("http://localhost:{port}"))
        .env_remove("WINDLASS_STORE")
        .env_remove("WINDLASS_LOG")
        .env_remove("WINDLASS_CONFIG")
        .stdin(Stdio::null())
        .stderr(output.try_clone().unwrap())
        .stdout(output)
        .status()
        .unwrap();
    let said = fs::read_to_string(out).unwrap();
    assert!(status.success(), "{page}: {status}\n{said}");
    let parts: Vec<&str> = said.split("@@\n").collect();
    let mut compared = 0;
    for (run, text) in expected {
        for line in text.lines() {
            assert!(
                has_line(parts[run - 1], line),
                "{page}: no line '{line}' in\n{said}"
            );
            compared += 1;
        }
    }
    compared
}

#[test]
fn the_tutorial_prints_what_it_says() {
    assert!(run("tutorial.md") > 10);
}

#[test]
fn the_guide_of_files_prints_what_it_says() {
    assert!(run("guide-files.md") > 4);
}

#[test]
fn the_guide_of_a_crontab_prints_what_it_says() {
    assert!(run("guide-crontab.md") > 6);
}

/// Needs Python; the package is that of the repository.
#[test]
fn the_guide_of_a_team_prints_what_it_says() {
    assert!(run("guide-team.md") > 4);
}

#[test]
fn a_line_has_its_parts_in_order() {
    assert!(has_line(
        "a\nstate     completed, for 3s",
        "state … completed"
    ));
    assert!(!has_line("completed state", "state … completed"));
    assert!(!has_line("", "state"));
}
