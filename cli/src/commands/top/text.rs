//! The lines of a page: text with tones, cut and wrapped to a width.

use ratatui::{
    style::{Color, Modifier, Style},
    text::{Line, Span},
};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::text::one_line;

/// How a text stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Title,
    Faint,
    Bad,
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Title => Style::new().add_modifier(Modifier::BOLD),
            Self::Faint => Style::new().add_modifier(Modifier::DIM),
            Self::Bad => Style::new().fg(Color::Red),
        }
    }
}

/// Returns a line of one tone, cut to a width.
pub(super) fn line(text: &str, tone: Tone, width: usize) -> Line<'static> {
    Line::from(Span::styled(cut(text, width), tone.style()))
}

/// Returns the text on one line without characters that a terminal obeys, at most this wide. A mark shows that it is cut.
pub(super) fn cut(text: &str, width: usize) -> String {
    let text = one_line(text);
    if text.width() <= width {
        return text;
    }
    let mut kept = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used + 1 > width {
            break;
        }
        kept.push(c);
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}

/// Returns the text, cut and filled to exactly this width.
pub(super) fn left(text: &str, width: usize) -> String {
    let mut text = cut(text, width);
    text.push_str(&" ".repeat(width.saturating_sub(text.width())));
    text
}

/// Returns the text, cut and filled to exactly this width, at the right.
pub(super) fn right(text: &str, width: usize) -> String {
    let text = cut(text, width);
    format!("{}{text}", " ".repeat(width.saturating_sub(text.width())))
}

/// Returns the text in lines of at most this width, without loss: it may be copied. Lines after the first begin with `indent`.
pub(super) fn wrapped(
    text: &str,
    tone: Tone,
    (indent, width): (&str, usize),
) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let mut now = String::new();
    for word in one_line(text).split_inclusive(' ') {
        if now.width() + word.trim_end().width() > width && now.trim() != "" {
            lines.push(std::mem::replace(&mut now, indent.to_owned()));
        }
        for c in word.chars() {
            if now.width() + c.width().unwrap_or(0) > width {
                lines.push(std::mem::replace(&mut now, indent.to_owned()));
            }
            now.push(c);
        }
    }
    lines.push(now);
    let line = |text: String| Line::from(Span::styled(text.trim_end().to_owned(), tone.style()));
    lines.into_iter().map(line).collect()
}

/// Returns the line for an output that is not a screen.
pub(super) fn printed(line: &Line<'_>, colors: bool) -> String {
    let mut text = String::new();
    for span in &line.spans {
        let codes = match colors {
            true => codes(span.style),
            false => None,
        };
        match codes {
            Some(code) => text.push_str(&format!("\x1b[{code}m{}\x1b[0m", span.content)),
            None => text.push_str(&span.content),
        }
    }
    text.trim_end().to_owned()
}

fn codes(style: Style) -> Option<u8> {
    match style {
        style if style.fg == Some(Color::Red) => Some(31),
        style if style.add_modifier.contains(Modifier::BOLD) => Some(1),
        style if style.add_modifier.contains(Modifier::DIM) => Some(2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(line: &Line<'_>) -> String {
        printed(line, false)
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_it_may_be_and_none_loses_text(text in "[ -~\u{5d0}-\u{5d5}\u{4e00}\u{1b}\u{202e}\n]{0,200}", width in 8_usize..120) {
            prop_assert!(cut(&text, width).width() <= width);
            prop_assert_eq!(left(&text, width).width(), width);
            prop_assert_eq!(right(&text, width).width(), width);
            let lines = wrapped(&text, Tone::Plain, ("  ", width));
            let all: String = lines.iter().map(plain).collect();
            let solid = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(solid(&all), solid(&one_line(&text)));
            for line in lines {
                prop_assert!(line.width() <= width, "{}", plain(&line));
            }
        }
    }

    #[test]
    fn a_terminal_obeys_nothing_of_a_name() {
        let name = "a\x1b[2J\u{202e}b\nשלום";
        let shown = plain(&line(name, Tone::Bad, 80));
        assert_eq!(shown, "a\\u{1b}[2J\\u{202e}b שלום");
        assert_eq!(printed(&line("x", Tone::Bad, 80), true), "\x1b[31mx\x1b[0m");
    }
}
