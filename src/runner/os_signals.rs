//! [`StopSignals`]: the signals that ask a process to end.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use futures::Stream;

/// The signals that ask a process to end, as a stream of their names. On Unix these are SIGTERM,
/// SIGINT (ctrl-c), SIGHUP (the terminal was closed) and SIGQUIT; elsewhere it is ctrl-c.
///
/// A SIGHUP that the process was started to ignore stays ignored, so that `nohup` works. Only Linux
/// reports that; on other systems SIGHUP always counts.
///
/// After [`listen`](Self::listen) these signals no longer end the process on their own.
#[derive(Debug)]
pub struct StopSignals {
    #[cfg(unix)]
    signals: Vec<(&'static str, tokio::signal::unix::Signal)>,
    #[cfg(not(unix))]
    ctrl_c: tokio::signal::windows::CtrlC,
}

impl StopSignals {
    /// Starts to listen.
    ///
    /// # Errors
    ///
    /// When the process cannot listen for signals.
    #[cfg(unix)]
    pub fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let ignores_hangup = ignores(SignalKind::hangup());
        let mut signals = Vec::new();
        for (name, kind) in [
            ("SIGTERM", SignalKind::terminate()),
            ("SIGINT", SignalKind::interrupt()),
            ("SIGQUIT", SignalKind::quit()),
            ("SIGHUP", SignalKind::hangup()),
        ] {
            if kind != SignalKind::hangup() || !ignores_hangup {
                signals.push((name, signal(kind)?));
            }
        }
        Ok(Self { signals })
    }

    /// Starts to listen.
    ///
    /// # Errors
    ///
    /// When the process cannot listen for signals.
    #[cfg(not(unix))]
    pub fn listen() -> io::Result<Self> {
        let ctrl_c = tokio::signal::windows::ctrl_c()?;
        Ok(Self { ctrl_c })
    }

    /// Returns the names of these signals.
    pub fn names(&self) -> Vec<&'static str> {
        #[cfg(unix)]
        return self.signals.iter().map(|(name, _)| *name).collect();
        #[cfg(not(unix))]
        return vec!["ctrl-c"];
    }
}

/// Returns whether this process ignores the signal; false where the system does not report it.
#[cfg(unix)]
fn ignores(kind: tokio::signal::unix::SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let Ok(number) = u32::try_from(kind.as_raw_value()) else {
        return false;
    };
    is_in(&status, "SigIgn:", number)
}

/// Returns whether a signal is in one of the sets of `/proc/PID/status`.
#[cfg(unix)]
fn is_in(status: &str, set: &str, number: u32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix(set));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let bit = number.checked_sub(1).and_then(|n| 1u64.checked_shl(n));
    mask.zip(bit).is_some_and(|(mask, bit)| mask & bit != 0)
}

impl Stream for StopSignals {
    type Item = &'static str;

    #[cfg(unix)]
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        for (name, signal) in &mut self.signals {
            if let Poll::Ready(Some(())) = signal.poll_recv(cx) {
                return Poll::Ready(Some(*name));
            }
        }
        Poll::Pending
    }

    #[cfg(not(unix))]
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.ctrl_c.poll_recv(cx).map(|()| Some("ctrl-c"))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn sets_of_signals_are_read() {
        let status = "Name:\tx\nSigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\n";
        assert!(is_in(status, "SigIgn:", 1) && is_in(status, "SigIgn:", 13));
        assert!(!is_in(status, "SigIgn:", 2) && is_in(status, "SigBlk:", 2));
        for wrong in ["", "SigIgn:", "SigIgn:\tx", "SigIgn:\t1"] {
            assert!(!is_in(wrong, "SigIgn:", 0) && !is_in(wrong, "SigIgn:", 99));
        }
    }
}
