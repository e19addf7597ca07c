//! The command lines of `docs/learn/unique.md`, run as they are written.

use std::process::Command;

use crate::env::Env;

/// Each `sh` block of the page, in a store of its own. A comment behind a line has what it prints.
#[test]
fn the_command_lines_of_the_page_print_what_it_says() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/learn/unique.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks: Vec<&str> = page.split("```sh\n").skip(1).collect();
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        let env = Env::new();
        for line in block.split("\n```").next().unwrap().lines() {
            let (command, says) = line.split_once(" # ").unwrap();
            let words = command.strip_prefix("windlass ").unwrap();
            let ran = Command::new("timeout")
                .args(["60", "sh", "-c", &format!("exec \"$0\" {words}")])
                .arg(env!("CARGO_BIN_EXE_windlass"))
                .env("WINDLASS_STORE", env.url())
                .env("XDG_DATA_HOME", env.path("data"))
                .env("XDG_CONFIG_HOME", env.path("config"))
                .env_remove("WINDLASS_LOG")
                .env_remove("WINDLASS_CONFIG")
                .output()
                .unwrap();
            let out = String::from_utf8(ran.stdout).unwrap();
            let code = ran.status.code();
            match says {
                "refused" => assert_eq!(code, Some(1), "{line}"),
                says if says.starts_with("runs ") => assert_eq!(code, Some(0), "{line}"),
                says => assert_eq!((code, out.trim_end()), (Some(0), says), "{line}"),
            }
        }
    }
}
