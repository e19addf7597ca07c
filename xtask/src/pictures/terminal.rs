//! A terminal at work: a recording of real commands, and its picture.

use std::{
    fmt::Write,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::svg::escaped;

/// The longest line before it continues in the next one.
const COLUMNS: usize = 100;
const LINE: usize = 19;
/// The width of a letter, with room for fonts that are wider than most.
const LETTER: usize = 8;

/// Words of the recording in a colour.
const COLOURS: [(&str, &str); 4] = [
    ("completed", "#7ee787"),
    ("runnable", "#f2cc60"),
    ("failed", "#ff7b72"),
    ("kill", "#ff7b72"),
];

/// A line in pieces of at most a line of the terminal, broken at spaces.
fn wrapped(line: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for word in line.split_inclusive(' ') {
        let last = pieces.last_mut().filter(|piece| {
            piece.is_empty() || piece.chars().count() + word.trim_end().len() <= COLUMNS
        });
        match last {
            Some(piece) => piece.push_str(word),
            None => pieces.push(word.to_owned()),
        }
    }
    pieces
}

fn coloured(text: &str) -> String {
    let mut text = escaped(text);
    for (word, colour) in COLOURS {
        text = text.replace(word, &format!(r#"<tspan fill="{colour}">{word}</tspan>"#));
    }
    text
}

/// The picture of a recording. A line that begins with `$ ` is a command, any other is output.
pub(super) fn draw(recording: &str) -> String {
    let lines: Vec<String> = recording.lines().flat_map(wrapped).collect();
    let longest = lines.iter().map(|line| line.chars().count()).max();
    let width = longest.unwrap_or(0) * LETTER + 40;
    let height = lines.len() * LINE + 62;
    let mut body = String::new();
    for (n, line) in lines.iter().enumerate() {
        let y = 58 + n * LINE;
        let text = match line.strip_prefix("$ ") {
            Some(command) => format!(
                r##"<tspan fill="#79c0ff">$</tspan> <tspan fill="#ffffff" font-weight="bold">{}</tspan>"##,
                coloured(command)
            ),
            None => coloured(line),
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            body,
            r#"<text x="20" y="{y}" xml:space="preserve">{text}</text>"#
        );
    }
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="13" fill="#c9d1d9">
<title>windlass in a terminal: a run that is killed and goes on</title>
<rect x="0.5" y="0.5" width="{}" height="{}" rx="9" fill="#0d1117" stroke="#484f58"/>
<circle cx="22" cy="20" r="6" fill="#ff5f57"/><circle cx="42" cy="20" r="6" fill="#febc2e"/><circle cx="62" cy="20" r="6" fill="#28c840"/>
{body}</svg>
"##,
        width - 1,
        height - 1
    )
}

const RUN: [&str; 6] = ["run", "-j", "2", "--each", "./digest {}", "files.txt"];
const FILES: [&str; 6] = [
    "alpha.csv",
    "beta.csv",
    "delta.csv",
    "gamma.csv",
    "kappa.csv",
    "omega.csv",
];

/// A folder, and the commands and their output in it.
struct Session<'a> {
    program: &'a Path,
    folder: PathBuf,
    text: String,
}

impl Session<'_> {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.program);
        command.args(args).current_dir(&self.folder);
        command
            .env("WINDLASS_STORE", "sqlite:jobs.db")
            .env_remove("WINDLASS_LOG");
        command.env("WINDLASS_CONFIG", "").stdin(Stdio::null());
        command
    }

    /// The output of the command on both streams, in the order of its lines.
    fn output(&self, mut command: Command) -> Result<String, String> {
        let (path, fault) = (self.folder.join("output"), could_not("run a command"));
        let file = File::create(&path).map_err(&fault)?;
        command
            .stderr(file.try_clone().map_err(&fault)?)
            .stdout(file);
        command.status().map_err(&fault)?;
        fs::read_to_string(path).map_err(fault)
    }

    fn type_in(&mut self, line: &str, output: &str) {
        self.text += &format!("$ {line}\n");
        for line in output.lines() {
            self.text += line.trim_end();
            self.text.push('\n');
        }
    }

    fn windlass(&mut self, args: &[&str]) -> Result<(), String> {
        let output = self.output(self.command(args))?;
        self.type_in(&typed(args), &output);
        Ok(())
    }

    /// Waits until two tasks have completed and two others run.
    fn wait_for_the_middle(&self) -> Result<(), String> {
        let end = Instant::now() + Duration::from_secs(60);
        while Instant::now() < end {
            let list = self.output(self.command(&["list"]))?;
            let is_run = |line: &&str| line.contains("runnable") && line.contains("node-");
            let running = list.lines().filter(is_run).count();
            if (list.matches("completed").count(), running) == (2, 2) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Err("could not record: the run did not come to its middle within 60 s".into())
    }
}

fn typed(args: &[&str]) -> String {
    let quoted = args.iter().map(|arg| match arg.contains(' ') {
        true => format!("'{arg}'"),
        false => (*arg).to_owned(),
    });
    let quoted: Vec<String> = quoted.collect();
    format!("windlass {}", quoted.join(" "))
}

fn could_not(what: &'static str) -> impl Fn(std::io::Error) -> String {
    move |error| format!("could not {what}: {error}")
}

/// The process and its worker.
fn both(child: &Child) -> Result<String, String> {
    let id = child.id();
    let path = format!("/proc/{id}/task/{id}/children");
    let children = fs::read_to_string(path).map_err(could_not("find the worker of the run"))?;
    Ok(format!("{id} {}", children.trim()))
}

/// Runs the commands of the picture in a new folder, with this program.
pub(super) fn record(program: &Path, folder: &Path) -> Result<String, String> {
    let fault = could_not("prepare the folder of the recording");
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(&fault)?;
    let script = folder.join("digest");
    fs::write(&script, "#!/bin/sh\nsleep 1; sha256sum \"$1\"\n").map_err(&fault)?;
    for name in FILES {
        fs::write(folder.join(name), name).map_err(&fault)?;
    }
    fs::write(folder.join("files.txt"), FILES.join("\n")).map_err(&fault)?;
    let mut session = Session {
        program,
        folder: folder.to_path_buf(),
        text: String::new(),
    };
    let mut chmod = Command::new("chmod");
    session.output({
        chmod.arg("+x").arg(&script);
        chmod
    })?;

    let mut cat = Command::new("cat");
    cat.arg(&script);
    let shown = session.output(cat)?;
    session.type_in("cat digest", &shown);
    let printed = folder.join("first");
    let file = File::create(&printed).map_err(&fault)?;
    let mut first = session.command(&RUN);
    first.stderr(file.try_clone().map_err(&fault)?).stdout(file);
    let mut first = first.spawn().map_err(could_not("start the first run"))?;
    session.wait_for_the_middle()?;
    let processes = both(&first)?;
    let mut kill = Command::new("kill");
    kill.arg("-9").args(processes.split(' '));
    kill.status().map_err(could_not("kill the first run"))?;
    first.wait().map_err(could_not("wait for the first run"))?;
    let printed = fs::read_to_string(printed).map_err(&fault)?;
    session.type_in(&format!("{} &", typed(&RUN)), &printed);
    session.type_in(&format!("kill -9 {processes}"), "");
    session.windlass(&["list"])?;
    session.windlass(&RUN)?;
    session.windlass(&["list"])?;
    let _ = fs::remove_dir_all(folder);
    Ok(session.text)
}
