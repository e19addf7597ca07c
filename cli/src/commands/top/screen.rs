//! The terminal: draws the page while the data change, and is as it was before when the command ends in any way.

use std::{
    io::{self, Stdout, Write},
    sync::{
        Once,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crossterm::{
    cursor,
    event::{Event, EventStream, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    execute, terminal,
};
use futures::StreamExt;
use ratatui::{Terminal, backend::CrosstermBackend};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval, sleep},
};

use super::{
    data::{Data, Source},
    page::{Key, Latest, Page},
};
use crate::exit::{Exit, Failure};

/// How the page is shown.
pub(super) struct Settings {
    /// The name of the store or the server.
    pub(super) name: String,
    /// How often the data are read.
    pub(super) every: Duration,
    pub(super) colors: bool,
}

/// Whether the terminal shows a page.
static IS_OPEN: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// The terminal while it shows a page. Dropping it makes the terminal as it was before.
struct Screen(Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    fn open() -> io::Result<Self> {
        HOOK.call_once(|| {
            // A message of a panic on the page would be erased with it.
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                leave();
                before(panic);
            }));
        });
        terminal::enable_raw_mode()?;
        IS_OPEN.store(true, Ordering::SeqCst);
        let mut out = io::stdout();
        let entered = execute!(out, terminal::EnterAlternateScreen, cursor::Hide);
        let opened = entered.and_then(|()| Terminal::new(CrosstermBackend::new(out)));
        opened.map(Self).inspect_err(|_| leave())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// Makes the terminal as it was before. If it is gone, nobody looks at it.
fn leave() {
    if IS_OPEN.swap(false, Ordering::SeqCst) {
        let mut out = io::stdout();
        let _ = execute!(out, terminal::LeaveAlternateScreen, cursor::Show);
        let _ = terminal::disable_raw_mode();
        let _ = out.flush();
    }
}

/// A task that ends with its owner.
struct Reading(JoinHandle<()>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reads the data again and again.
async fn read(mut source: Source, every: Duration, latest: watch::Sender<Latest>) {
    loop {
        sleep(every).await;
        let read = source.read().await;
        latest.send_modify(|latest| match read {
            Ok(data) => {
                *latest = Latest {
                    data,
                    read: Instant::now(),
                    failing: None,
                }
            }
            Err(failure) => latest.failing = Some(failure.to_string()),
        });
    }
}

/// Shows the page until it is left.
///
/// # Errors
///
/// When the terminal does not work.
pub(super) async fn show(source: Source, data: Data, settings: Settings) -> Result<Exit, Failure> {
    let Settings {
        name,
        every,
        colors,
    } = settings;
    let latest = Latest {
        data,
        read: Instant::now(),
        failing: None,
    };
    let mut page = Page::new(name, latest.clone(), every);
    let (sender, mut latest) = watch::channel(latest);
    let mut ends = Ends::new()?;
    let mut reading = Reading(tokio::spawn(read(source, every, sender)));
    let mut screen = Screen::open()?;
    let mut keys = EventStream::new();
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        screen
            .0
            .draw(|frame| page.draw(frame, Instant::now(), colors))?;
        tokio::select! {
            event = keys.next() => match event {
                Some(Ok(Event::Key(pressed))) => match key(pressed) {
                    Some(Pressed::Quit) => return Ok(Exit::Ok),
                    Some(Pressed::Interrupt) => return Ok(Exit::Interrupted),
                    Some(Pressed::Key(key)) => {
                        let is_newest_wanted = page.press(key);
                        if is_newest_wanted {
                            page.update(latest.borrow_and_update().clone());
                        }
                    }
                    None => {}
                },
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
                None => return Ok(Exit::Interrupted),
            },
            changed = latest.changed() => if changed.is_ok() {
                page.update(latest.borrow_and_update().clone());
            },
            ended = &mut reading.0 => {
                let why = ended.err().map_or_else(String::new, |error| format!(": {error}"));
                return Err(Failure::Store(format!("the reads have ended{why}; report this as a defect of windlass")));
            }
            _ = ticks.tick() => {}
            () = ends.next() => return Ok(Exit::Interrupted),
        }
    }
}

/// The signals that end the command.
struct Ends([Signal; 4]);

impl Ends {
    fn new() -> io::Result<Self> {
        let kinds = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
            SignalKind::quit(),
        ];
        let [a, b, c, d] = kinds.map(signal);
        Ok(Self([a?, b?, c?, d?]))
    }

    async fn next(&mut self) {
        let [a, b, c, d] = &mut self.0;
        tokio::select! {
            _ = a.recv() => {}
            _ = b.recv() => {}
            _ = c.recv() => {}
            _ = d.recv() => {}
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Pressed {
    Quit,
    Interrupt,
    Key(Key),
}

fn key(event: KeyEvent) -> Option<Pressed> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let key = match event.code {
        KeyCode::Char('c') if event.modifiers.contains(KeyModifiers::CONTROL) => {
            return Some(Pressed::Interrupt);
        }
        KeyCode::Char('q') | KeyCode::Esc => return Some(Pressed::Quit),
        KeyCode::Char('p') => Key::Pause,
        KeyCode::Char('s') => Key::Sort,
        KeyCode::Up | KeyCode::Char('k') => Key::Lines(-1),
        KeyCode::Down | KeyCode::Char('j') => Key::Lines(1),
        KeyCode::PageUp => Key::Screens(-1),
        KeyCode::PageDown | KeyCode::Char(' ') => Key::Screens(1),
        KeyCode::Home | KeyCode::Char('g') => Key::Lines(isize::MIN + 1),
        KeyCode::End | KeyCode::Char('G') => Key::Lines(isize::MAX),
        _ => return None,
    };
    Some(Pressed::Key(key))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::Read,
        process::{Command, Stdio},
    };

    use nix::sys::termios::{LocalFlags, tcgetattr};

    use super::*;

    /// Not a test: the program of the one below.
    #[test]
    #[ignore = "is started on a terminal by the_terminal_is_as_before_after_a_panic"]
    #[allow(clippy::panic, reason = "it is what is tested")]
    fn panics_on_the_page() {
        let _screen = Screen::open().unwrap();
        panic!("with a message");
    }

    #[test]
    fn the_terminal_is_as_before_after_a_panic() {
        let pty = nix::pty::openpty(None, None).unwrap();
        let end = || Stdio::from(pty.slave.try_clone().unwrap());
        let name = "commands::top::screen::tests::panics_on_the_page";
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([name, "--exact", "--ignored", "--nocapture"]);
        let mut child = command
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        drop(command);
        let mut master = File::from(pty.master);
        let mut shown = String::new();
        let mut bytes = [0; 4096];
        // It has entered the page, and has left it before the message of the panic.
        while !shown.contains("test result: FAILED") {
            let n = master.read(&mut bytes).unwrap();
            shown.push_str(&String::from_utf8_lossy(&bytes[..n]));
        }
        let place = |text: &str| {
            shown
                .find(text)
                .unwrap_or_else(|| panic!("{text}: {shown}"))
        };
        assert!(place("\x1b[?1049h") < place("\x1b[?1049l"));
        assert!(place("\x1b[?1049l") < place("with a message"));
        let flags = tcgetattr(&pty.slave).unwrap().local_flags;
        assert!(flags.contains(LocalFlags::ICANON | LocalFlags::ECHO));
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn keys_do_what_the_page_says() {
        let pressed = |code, modifiers| key(KeyEvent::new(code, modifiers));
        let plain = |code| pressed(code, KeyModifiers::NONE);
        assert_eq!(plain(KeyCode::Char('q')), Some(Pressed::Quit));
        let interrupt = pressed(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(interrupt, Some(Pressed::Interrupt));
        assert_eq!(plain(KeyCode::Char('c')), None);
        assert_eq!(
            plain(KeyCode::PageDown),
            Some(Pressed::Key(Key::Screens(1)))
        );
        let mut released = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
        released.kind = KeyEventKind::Release;
        assert_eq!(key(released), None);
    }
}
