//! SVG drawings: boxes, texts and arrows on a light card, which reads on a light and on a dark page.

use std::fmt::Write;

/// A point: x to the right, y down, in pixels.
pub(super) type Point = (i32, i32);

pub(super) const INK: &str = "#1f2937";
pub(super) const MUTED: &str = "#4b5563";
pub(super) const BLUE: &str = "#1d4ed8";
pub(super) const CARD: &str = "#ffffff";
const FAMILY: &str = "DejaVu Sans, Verdana, Helvetica, sans-serif";

/// Where a text stands.
pub(super) struct Label<'a> {
    pub(super) at: Point,
    /// `start`, `middle` or `end`: which part of the text is at the point.
    pub(super) anchor: &'static str,
    pub(super) size: u32,
    pub(super) fill: &'static str,
    pub(super) is_bold: bool,
    pub(super) text: &'a str,
}

impl<'a> Label<'a> {
    /// A text of normal size in the middle of a point.
    pub(super) fn middle(at: Point, text: &'a str) -> Self {
        Self {
            at,
            anchor: "middle",
            size: 13,
            fill: INK,
            is_bold: false,
            text,
        }
    }

    /// About how wide the text is: wide enough for every common font.
    fn width(&self) -> i32 {
        let letters = i32::try_from(self.text.chars().count()).unwrap_or(0);
        letters * 58 * i32::try_from(self.size).unwrap_or(13) / 100 + 8
    }
}

/// A box with rounded corners.
pub(super) struct Frame {
    pub(super) at: Point,
    pub(super) size: Point,
    pub(super) fill: &'static str,
    pub(super) stroke: &'static str,
}

/// A drawing of a fixed size.
pub(super) struct Drawing {
    width: i32,
    height: i32,
    body: String,
}

impl Drawing {
    /// An empty card with a title for readers that cannot see it.
    pub(super) fn new(width: i32, height: i32, title: &str) -> Self {
        let mut drawing = Self {
            width,
            height,
            body: format!("<title>{}</title>\n", escaped(title)),
        };
        drawing.frame(&Frame {
            at: (1, 1),
            size: (width - 2, height - 2),
            fill: CARD,
            stroke: "#d1d5db",
        });
        drawing
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.body.write_fmt(element);
        self.body.push('\n');
    }

    pub(super) fn frame(&mut self, frame: &Frame) {
        let ((x, y), (width, height)) = (frame.at, frame.size);
        let (fill, stroke) = (frame.fill, frame.stroke);
        self.add(format_args!(
            r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{fill}" stroke="{stroke}" stroke-width="1.5"/>"#
        ));
    }

    pub(super) fn label(&mut self, label: &Label<'_>) {
        let ((x, y), weight) = (label.at, if label.is_bold { "bold" } else { "normal" });
        let (anchor, size, fill) = (label.anchor, label.size, label.fill);
        let text = escaped(label.text);
        self.add(format_args!(
            r#"<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" fill="{fill}">{text}</text>"#
        ));
    }

    /// A text on its own background, over the lines that it crosses.
    pub(super) fn covering(&mut self, label: &Label<'_>) {
        let (width, (x, y)) = (label.width(), label.at);
        let left = match label.anchor {
            "start" => x - 4,
            "end" => x - width + 4,
            _ => x - width / 2,
        };
        self.add(format_args!(
            r#"<rect x="{left}" y="{}" width="{width}" height="15" fill="{CARD}"/>"#,
            y - 12
        ));
        self.label(label);
    }

    /// A line through these points.
    pub(super) fn line(&mut self, points: &[Point], stroke: &str, dashes: &str) {
        let points = path(points);
        self.add(format_args!(
            r#"<path d="{points}" fill="none" stroke="{stroke}" stroke-width="1.5" stroke-dasharray="{dashes}"/>"#
        ));
    }

    /// An arrow through these points, with its head at the last one.
    pub(super) fn arrow(&mut self, points: &[Point], stroke: &str) {
        let points = path(points);
        self.add(format_args!(
            r#"<path d="{points}" fill="none" stroke="{stroke}" stroke-width="1.5" marker-end="url(#head)"/>"#
        ));
    }

    pub(super) fn finish(self) -> String {
        let Self {
            width,
            height,
            body,
        } = self;
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="{FAMILY}">
<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0 L10 5 L0 10 z" fill="{INK}"/></marker></defs>
{body}</svg>
"##
        )
    }
}

fn path(points: &[Point]) -> String {
    let mut path = String::new();
    for (n, (x, y)) in points.iter().enumerate() {
        let _ = write!(path, "{}{x} {y} ", if n == 0 { 'M' } else { 'L' });
    }
    path.trim_end().to_owned()
}

/// Text as it stands in XML.
pub(super) fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}
