//! A terminal that understands what pages send to it.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::AsFd,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::termios::{LocalFlags, tcgetattr},
};

use crate::live::{Running, until};

/// How long a test waits for a text.
const BOUND: Duration = Duration::from_secs(60);

/// The program on a terminal.
pub(crate) struct Terminal {
    pub(crate) running: Running,
    master: File,
    /// What was received and not yet understood.
    rest: String,
    /// The page, while there is one.
    is_page: bool,
    /// Whether anything but positions and text was received.
    pub(crate) has_escapes: bool,
    rows: Vec<Vec<char>>,
    at: (usize, usize),
}

impl Terminal {
    pub(crate) fn start(mut command: Command, (rows, columns): (u16, u16)) -> Self {
        let size = nix::pty::Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = nix::pty::openpty(Some(&size), None).unwrap();
        let end = || Stdio::from(pty.slave.try_clone().unwrap());
        command.env("TERM", "xterm").env_remove("NO_COLOR");
        command.stdin(end()).stdout(end()).stderr(end());
        let running = Running::of(command.spawn().unwrap());
        Self {
            running,
            master: File::from(pty.master),
            rest: String::new(),
            is_page: false,
            has_escapes: false,
            rows: vec![vec![' '; usize::from(columns)]; usize::from(rows)],
            at: (0, 0),
        }
    }

    /// Returns the text on the screen.
    pub(crate) fn text(&self) -> String {
        let rows = self.rows.iter().map(|row| row.iter().collect::<String>());
        rows.map(|row| row.trim_end().to_owned() + "\n").collect()
    }

    /// Waits until the screen has this text.
    pub(crate) fn until(&mut self, text: &str) {
        self.until_is(text, |terminal| terminal.text().contains(text));
    }

    fn until_is(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let mut bytes = [0; 4096];
        let deadline = Instant::now() + BOUND;
        while !is_so(self) {
            // A page that is drawn again and again is always ready to be read.
            assert!(
                Instant::now() < deadline,
                "{what}: not on the screen within {BOUND:?}:\n{}",
                self.text()
            );
            let mut ready = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
            let ready = poll(&mut ready, PollTimeout::from(30_000_u16)).unwrap();
            assert!(
                ready > 0,
                "{what}: not on the screen in time:\n{}",
                self.text()
            );
            let n = self.master.read(&mut bytes).unwrap_or_default();
            assert!(
                n > 0,
                "{what}: not on the screen at the end:\n{}",
                self.text()
            );
            self.rest.push_str(&String::from_utf8_lossy(&bytes[..n]));
            self.understand();
        }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Returns whether the terminal shows what is typed, as before the program.
    pub(crate) fn is_cooked(&self) -> bool {
        let flags = tcgetattr(&self.master).unwrap().local_flags;
        flags.contains(LocalFlags::ICANON | LocalFlags::ECHO)
    }

    /// Waits for the end of the program, after which the terminal is as before.
    pub(crate) fn ends(mut self, code: i32) {
        self.until_is("the page is left", |terminal| !terminal.is_page);
        until("the terminal is as before", || self.is_cooked());
        assert_eq!(self.running.wait(), Some(code));
    }

    /// Waits for the end of a program that makes no page.
    pub(crate) fn ends_without_page(self, code: i32) {
        assert!(!self.is_page);
        assert_eq!(self.running.wait(), Some(code));
    }

    fn understand(&mut self) {
        let all = std::mem::take(&mut self.rest);
        let mut left = all.as_str();
        while let Some(c) = left.chars().next() {
            let Some(sequence) = left.strip_prefix("\x1b[") else {
                if left == "\x1b" {
                    break;
                }
                self.show(c);
                left = &left[c.len_utf8()..];
                continue;
            };
            let Some(end) = sequence.find(|c: char| c.is_ascii_alphabetic()) else {
                break;
            };
            self.has_escapes = true;
            let (numbers, rest) = sequence.split_at(end);
            self.obey(numbers, rest.chars().next().unwrap_or_default());
            left = &rest[1..];
        }
        self.rest = left.to_owned();
    }

    fn obey(&mut self, numbers: &str, what: char) {
        let number = |n: usize| {
            numbers
                .split(';')
                .nth(n)
                .and_then(|n| n.parse().ok())
                .unwrap_or(1)
        };
        match (numbers, what) {
            ("?1049", 'h') => self.is_page = true,
            ("?1049", 'l') => self.is_page = false,
            (_, 'H') => self.at = (number(0) - 1, number(1) - 1),
            ("2", 'J') => self.rows.iter_mut().for_each(|row| row.fill(' ')),
            _ => {}
        }
    }

    fn show(&mut self, c: char) {
        let (row, column) = &mut self.at;
        match c {
            '\n' => *row += 1,
            '\r' => *column = 0,
            c => {
                if let Some(cell) = self.rows.get_mut(*row).and_then(|row| row.get_mut(*column)) {
                    *cell = c;
                }
                *column += 1;
            }
        }
    }

    /// Waits until the program shows its page.
    pub(crate) fn until_page(&mut self) {
        self.until_is("a page", |terminal| terminal.is_page);
    }
}
