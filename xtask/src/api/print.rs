//! Tokens as text, in one line and with the spaces that a reader expects.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::ToTokens;

/// Returns tokens as one line.
pub(super) fn text(tokens: impl ToTokens) -> String {
    let mut text = String::new();
    print(tokens.to_token_stream(), &mut text);
    without_comma(&mut text);
    text.trim().to_owned()
}

/// Removes a comma behind the last of several things.
fn without_comma(text: &mut String) {
    if text.ends_with(',') {
        text.pop();
    }
}

fn print(tokens: TokenStream, text: &mut String) {
    // Whether the next token follows without a space.
    let mut glued = true;
    let mut angles = 0_usize;
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => (" { ", " }"),
                    Delimiter::None => ("", ""),
                };
                if !glued && group.delimiter() != Delimiter::Brace && needs_space(text) {
                    text.push(' ');
                }
                text.push_str(open);
                print(group.stream(), text);
                without_comma(text);
                text.push_str(close);
                glued = false;
            }
            TokenTree::Punct(punct) => {
                let sign = punct.as_char();
                let is_arrow = text.ends_with('-') || text.ends_with('=');
                match sign {
                    '<' => {
                        angles += 1;
                        text.push(sign);
                        glued = true;
                    }
                    '>' if !is_arrow => {
                        angles = angles.saturating_sub(1);
                        text.push(sign);
                        glued = false;
                    }
                    ':' | '.' | '#' | '!' | '?' | '\'' | '&' | '*' => {
                        if matches!(sign, '&' | '\'' | '#' | '*' | '?') && !glued {
                            text.push(' ');
                        }
                        text.push(sign);
                        glued = sign != ':'
                            || punct.spacing() == Spacing::Joint
                            || text.ends_with("::");
                    }
                    ',' | ';' => {
                        text.push(sign);
                        glued = false;
                    }
                    _ => {
                        if !glued {
                            text.push(' ');
                        }
                        text.push(sign);
                        glued = punct.spacing() == Spacing::Joint;
                    }
                }
            }
            word => {
                if !glued && !text.is_empty() && !text.ends_with(['(', '[', '<', ' ']) {
                    text.push(' ');
                }
                text.push_str(&word.to_string());
                glued = false;
            }
        }
    }
}

/// Whether a group in brackets stands apart from what is before it: not the arguments of a function or a type.
fn needs_space(text: &str) -> bool {
    text.ends_with([',', ':', '=', '+']) && !text.ends_with("::")
        || text.ends_with("mut")
        || text.ends_with("->")
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn items_read_as_they_are_written() -> Result<(), proc_macro2::LexError> {
        for line in [
            "pub async fn wait<T: DeserializeOwned>(&self) -> Result<T, WaitError> where J: TaskOutput<T>",
            "pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self",
            "pub trait Job: Serialize + 'static",
            "pub const KIND: &'static str",
            "fn run(&mut self, a: &[u8], b: Box<dyn Fn(u32) -> bool>) -> Option<(u32, u32)>",
            "impl<J> From<Stop> for Message<J>",
            "fn pairs() -> (A, B)",
            "fn each(items: impl IntoIterator<Item = (TaskId, u32)>) -> impl Stream<Item = crate::Time> + use<>",
        ] {
            let tokens: proc_macro2::TokenStream = line.parse()?;
            assert_eq!(text(tokens), line);
        }
        Ok(())
    }
}
