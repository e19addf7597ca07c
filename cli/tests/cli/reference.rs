//! The reference page, the help texts, the completions.

use crate::env::Env;

#[test]
fn the_reference_page_is_what_the_program_says() {
    let ran = Env::new().run(&["reference"]).ok();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/cli.md");
    let page = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        page == ran.out,
        "docs/reference/cli.md is stale; write it again: cargo run -p windlass-cli -- reference > docs/reference/cli.md"
    );
    // It is the same on every machine.
    let slots = page.lines().filter(|l| l.contains("one per core"));
    assert_eq!(slots.filter(|l| l.ends_with("core] |")).count(), 2);
}

#[test]
fn every_command_has_help_with_examples() {
    let env = Env::new();
    let top = env.run(&["--help"]).ok().out;
    assert!(top.contains("Exit codes:"), "{top}");
    let names = top
        .lines()
        .skip_while(|l| !l.starts_with("Commands:"))
        .skip(1);
    let names: Vec<&str> = names
        .take_while(|l| !l.is_empty())
        .filter_map(|l| l.split_whitespace().next())
        .collect();
    assert!(
        names.contains(&"submit") && names.contains(&"completions"),
        "{names:?}"
    );
    assert!(!names.contains(&"reference"), "{names:?}");
    for name in names.into_iter().filter(|name| *name != "help") {
        let help = env.run(&[name, "--help"]).ok().out;
        assert!(
            help.contains(&format!("windlass {name}")) && help.contains("Examples:"),
            "{help}"
        );
    }
}

#[test]
fn help_is_a_command_too() {
    let env = Env::new();
    for words in [&["submit"][..], &["node", "drain"]] {
        let asked = env.run(&[&["help"], words].concat()).ok().out;
        let usage = format!("Usage: windlass {}", words.join(" "));
        assert!(asked.contains(&usage), "{asked}");
    }
}

#[test]
fn completions_for_shells() {
    let env = Env::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = env.run(&["completions", shell]).ok();
        assert!(
            ran.out.contains("windlass") && ran.out.contains("stop-task"),
            "{shell}"
        );
        assert!(!ran.out.contains("reference"), "{shell}");
    }
    env.run(&["completions", "csh"]).fails(2, &["csh"]);
}

/// Writes the script of a shell to a file, and has the shell read it without running it.
fn shell_reads_its_script(shell: &str, check: &str) {
    let env = Env::new();
    let script = env.run(&["completions", shell]).ok().out;
    let file = env.write("script", &script);
    let read = std::process::Command::new(shell)
        .args([check, &file])
        .output();
    assert!(
        read.is_ok(),
        "could not start {shell}: {read:?}; install it"
    );
    let read = read.unwrap();
    let said = String::from_utf8_lossy(&read.stderr).into_owned();
    assert!(read.status.success() && said.is_empty(), "{said}");
    // The check finds what the shell cannot read.
    let broken = env.write("broken", &format!("{script}\nif (; then\n"));
    let read = std::process::Command::new(shell)
        .args([check, &broken])
        .output();
    assert!(!read.unwrap().status.success(), "{shell} {check}");
}

#[test]
fn bash_reads_its_completions() {
    shell_reads_its_script("bash", "-n");
}

#[test]
#[ignore = "needs zsh: install it, then run with --include-ignored"]
fn zsh_reads_its_completions() {
    shell_reads_its_script("zsh", "-n");
}

#[test]
#[ignore = "needs fish: install it, then run with --include-ignored"]
fn fish_reads_its_completions() {
    shell_reads_its_script("fish", "--no-execute");
}
