//! `windlass reference`: the reference of this command line, made from its definitions.

use std::fmt::Write;

use clap::{Arg, Command};

use crate::{
    exit::{Exit, Failure},
    output::{Format, Output},
};

/// The word that runs this function. It is not a subcommand, so that help, suggestions and completions
/// do not show it.
pub(crate) const WORD: &str = "reference";

/// Prints it.
pub(crate) fn execute(mut cli: Command) -> Result<Exit, Failure> {
    let out = Output::new(Format::Table, false, true);
    cli.build();
    let mut page = String::from(
        "# The command line\n\nMade by `windlass reference` from the program's own definitions; \
         a test keeps it so.\n\n",
    );
    // Writing to a string does not fail.
    let _ = describe(&mut page, &cli, "windlass", 0);
    out.bytes(page.trim_end().as_bytes())?;
    out.line("")?;
    Ok(Exit::Ok)
}

fn describe(page: &mut String, command: &Command, path: &str, depth: usize) -> std::fmt::Result {
    if depth > 0 {
        writeln!(page, "{} `{path}`\n", "#".repeat(depth + 1))?;
    }
    if let Some(about) = command.get_long_about().or(command.get_about()) {
        writeln!(page, "{about}\n")?;
    }
    let subcommands: Vec<&Command> = command
        .get_subcommands()
        .filter(|c| !c.is_hide_set() && c.get_name() != "help")
        .collect();
    let shown = |arg: &&Arg| !arg.is_hide_set() && (depth == 0 || !arg.is_global_set());
    let args: Vec<&Arg> = command.get_arguments().filter(shown).collect();
    writeln!(
        page,
        "```text\n{}\n```\n",
        usage(command, path, &args, !subcommands.is_empty())
    )?;
    if !args.is_empty() {
        writeln!(page, "| argument | what |\n|---|---|")?;
        for arg in args {
            writeln!(
                page,
                "| `{}` | {} |",
                name(arg).replace('|', "\\|"),
                meaning(arg)
            )?;
        }
        writeln!(page)?;
    }
    if let Some(after) = command.get_after_long_help().or(command.get_after_help()) {
        let mut after = after.to_string();
        // The text before the examples becomes a separate paragraph.
        if let Some(at) = after.find("\n\nExamples:\n") {
            let examples = after.split_off(at + 2);
            writeln!(page, "{}\n", after.trim_end())?;
            after = examples;
        }
        let (title, rest) = after.split_once('\n').unwrap_or(("", &after));
        writeln!(page, "{title}\n\n```text\n{}\n```\n", unindent(rest))?;
    }
    for sub in subcommands {
        describe(page, sub, &format!("{path} {}", sub.get_name()), depth + 1)?;
    }
    Ok(())
}

fn usage(command: &Command, path: &str, args: &[&Arg], has_commands: bool) -> String {
    let mut usage = path.to_owned();
    if args.iter().any(|a| !a.is_positional()) || !command.is_hide_set() {
        usage.push_str(" [OPTIONS]");
    }
    for arg in args.iter().filter(|a| a.is_positional()) {
        usage.push(' ');
        usage.push_str(&name(arg));
    }
    if has_commands {
        usage.push_str(" COMMAND");
    }
    usage
}

fn name(arg: &Arg) -> String {
    let values = arg
        .get_value_names()
        .filter(|_| arg.get_action().takes_values())
        .map(|names| names.join(" "));
    let many = arg.get_num_args().is_some_and(|n| n.max_values() > 1)
        || matches!(arg.get_action(), clap::ArgAction::Append);
    if arg.is_positional() {
        let value = values.unwrap_or_else(|| arg.get_id().to_string());
        let value = if many { format!("{value}...") } else { value };
        return if arg.is_required_set() {
            value
        } else {
            format!("[{value}]")
        };
    }
    let mut name = String::new();
    if let Some(short) = arg.get_short() {
        let _ = write!(name, "-{short}");
    }
    if let Some(long) = arg.get_long() {
        let comma = if name.is_empty() { "" } else { ", " };
        let _ = write!(name, "{comma}--{long}");
    }
    if let Some(values) = values {
        let optional = arg.get_num_args().is_some_and(|n| n.min_values() == 0);
        let _ = match optional {
            true => write!(name, "[={values}]"),
            false => write!(name, " {values}"),
        };
    }
    name
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help());
    let mut text = help
        .map(ToString::to_string)
        .unwrap_or_default()
        .replace('\n', " ");
    let choices: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|v| !v.is_hide_set())
        .map(|v| format!("`{}`", v.get_name()))
        .collect();
    if !choices.is_empty() && arg.get_action().takes_values() {
        let _ = write!(text, "; one of {}", choices.join(", "));
    }
    if let Some(env) = arg.get_env() {
        let _ = write!(text, "; also `{}`", env.to_string_lossy());
    }
    // A hidden default is described in words: it depends on the machine.
    let defaults = arg.get_default_values();
    let shown = arg.get_action().takes_values() && !arg.is_hide_default_value_set();
    if !defaults.is_empty() && shown {
        let defaults: Vec<_> = defaults.iter().map(|d| d.to_string_lossy()).collect();
        let _ = write!(text, "; `{}` by default", defaults.join(" "));
    }
    if matches!(arg.get_action(), clap::ArgAction::Append) && !arg.is_positional() {
        text.push_str("; may be given several times");
    }
    text.replace('|', "\\|").replace('<', "&lt;")
}

fn unindent(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(|l| l.strip_prefix("  ").unwrap_or(l))
        .collect();
    lines.join("\n")
}
