//! The pictures of the documents, as SVG.

mod flows;
mod states;
mod svg;
mod terminal;

use std::{fs, path::Path};

use super::{browser, cargo, root, run, tools};

const FOLDER: &str = "docs/pictures";
const RECORDING: &str = "docs/pictures/terminal.txt";

fn read(root: &Path, name: &str) -> Result<String, String> {
    fs::read_to_string(root.join(name)).map_err(|e| format!("could not read {name}: {e}"))
}

/// Every picture: the name of its file and its content.
fn drawn(root: &Path) -> Result<[(&'static str, String); 4], String> {
    Ok([
        ("terminal.svg", terminal::draw(&read(root, RECORDING)?)),
        (
            "states.svg",
            states::draw(&read(root, "docs/reference/lifecycle.md")?)?,
        ),
        ("commit.svg", flows::commit()),
        ("claim.svg", flows::claim()),
    ])
}

fn write(root: &Path, name: &str, text: &str) -> Result<(), String> {
    fs::write(root.join(name), text).map_err(|e| format!("could not write {name}: {e}"))
}

/// Draws every picture again; with `--record`, of commands that it runs first.
pub(crate) fn pictures(args: &[String]) -> Result<(), String> {
    let root = root();
    match args {
        [] => {}
        [only] if only == "--record" => {
            let mut build = cargo();
            build.args([
                "build",
                "--workspace",
                "--all-features",
                "--bin",
                "windlass",
            ]);
            run("cargo build", build.env("PROTOC", tools::protoc(&root)?))?;
            let program = root.join("target/debug/windlass");
            let recording = terminal::record(&program, &root.join("target/pictures"))?;
            write(&root, RECORDING, &recording)?;
        }
        [only] if only == "--dashboard" => return browser::pictures(FOLDER),
        _ => {
            return Err(
                "could not draw: the options of pictures are --record and --dashboard".into(),
            );
        }
    }
    for (name, svg) in drawn(&root)? {
        write(&root, &format!("{FOLDER}/{name}"), &svg)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pictures_are_as_the_command_draws_them() -> Result<(), String> {
        let root = root();
        for (name, svg) in drawn(&root)? {
            let committed = read(&root, &format!("{FOLDER}/{name}"))?;
            assert!(
                committed == svg,
                "{name} is old: run `cargo xtask pictures`"
            );
        }
        Ok(())
    }

    #[test]
    fn a_table_with_another_edge_is_not_drawn() -> Result<(), String> {
        let page = read(&root(), "docs/reference/lifecycle.md")?;
        let row = "| paused | runnable | sleeping | paused | paused | paused | – |";
        assert!(page.contains(row), "the row of paused has changed");
        let more = page.replace(row, &row.replace('–', "fault"));
        let error = states::draw(&more).err().unwrap_or_default();
        assert!(
            error.contains("no place for the edge from paused to fault"),
            "{error}"
        );
        let fewer = page.replace(row, &row.replace("sleeping", "–"));
        let error = states::draw(&fewer).err().unwrap_or_default();
        assert!(
            error.contains("no message leads from paused to sleeping"),
            "{error}"
        );
        Ok(())
    }
}
