//! [`Cursor`]: the position at which a page of a list begins.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use windlass_statemachine::{Invalid, TaskId};

use super::order::Order;

/// The position of a task in an order: its time in microseconds since 1970 (0 in the order of submits), then
/// its [`order`](super::TaskRecord::order). In the order of ids both are 0, and the id is the position.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Place {
    /// The time.
    pub at: i64,
    /// The submit order.
    pub order: u64,
    /// The id, in a list by id; `None` in every other list.
    pub id: Option<TaskId>,
}

impl Place {
    /// Returns the position of a value in an order, before all ids with that value.
    pub fn new(at: i64, order: u64) -> Self {
        Self {
            at,
            order,
            id: None,
        }
    }
}

/// The position at which a page begins. Its text is opaque, and valid only for the list that returned it. It stays
/// valid while tasks are added and deleted, even when the task at this position is deleted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cursor {
    pub(crate) order: Order,
    pub(crate) ascending: bool,
    /// Whether the page is the one before this place.
    pub(crate) backwards: bool,
    /// A hash of the list's filter.
    pub(crate) filter: u32,
    pub(crate) place: Place,
}

impl Cursor {
    /// Returns the order of the list that returned the cursor.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Returns whether the page is the one before this place: [`TaskPage::previous`](super::TaskPage::previous) returned the
    /// cursor. Smaller pages in the same direction follow by `previous`, too.
    pub fn is_backwards(&self) -> bool {
        self.backwards
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match self.order {
            Order::Submitted => 's',
            Order::Due => 'd',
            Order::Late => 'l',
            Order::Ended => 'e',
            Order::Id => 'i',
        };
        let sorted = if self.ascending { 'a' } else { 'z' };
        let towards = if self.backwards { 'p' } else { 'n' };
        let Place { at, order: of, id } = &self.place;
        if let Some(id) = id {
            write!(f, "{order}{sorted}{towards}{:08x}", self.filter)?;
            return write_plain(f, id);
        }
        let at = at.cast_unsigned();
        write!(
            f,
            "{order}{sorted}{towards}{:08x}{at:x}-{of:x}",
            self.filter
        )
    }
}

/// Writes an id in characters that have no special meaning in a shell or a URL.
fn write_plain(f: &mut fmt::Formatter<'_>, id: &TaskId) -> fmt::Result {
    for byte in id.as_str().bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'_' | b'.' => {
                write!(f, "{}", char::from(byte))?;
            }
            _ => write!(f, "~{byte:02x}")?,
        }
    }
    Ok(())
}

/// Reads the output of [`write_plain`].
fn read_plain(text: &str) -> Option<TaskId> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('~');
    bytes.extend(parts.next()?.bytes());
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend(rest.bytes());
    }
    TaskId::new(String::from_utf8(bytes).ok()?).ok()
}

impl FromStr for Cursor {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let read = || {
            let (kind, numbers) = text.split_at_checked(3)?;
            let mut letters = kind.chars();
            let order = match letters.next()? {
                's' => Order::Submitted,
                'd' => Order::Due,
                'l' => Order::Late,
                'e' => Order::Ended,
                'i' => Order::Id,
                _ => return None,
            };
            let one_of = |letter, yes, no| match letter {
                letter if letter == yes => Some(true),
                letter if letter == no => Some(false),
                _ => None,
            };
            let ascending = one_of(letters.next()?, 'a', 'z')?;
            let backwards = one_of(letters.next()?, 'p', 'n')?;
            let (filter, numbers) = numbers.split_at_checked(8)?;
            let filter = u32::from_str_radix(filter, 16).ok()?;
            let place = match order {
                Order::Id => Place {
                    at: 0,
                    order: 0,
                    id: Some(read_plain(numbers)?),
                },
                _ => {
                    let (at, of) = numbers.split_once('-')?;
                    let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
                    Place {
                        at: number(at)?.cast_signed(),
                        order: number(of)?,
                        id: None,
                    }
                }
            };
            Some(Self {
                order,
                ascending,
                backwards,
                filter,
                place,
            })
        };
        read().ok_or_else(|| {
            let reason = format!("'{text}' is not a cursor; give one that a list has returned");
            Invalid::new("cursor", reason)
        })
    }
}

impl Serialize for Cursor {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cursor {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_from_its_text() {
        for order in Order::ALL {
            for (ascending, backwards) in
                [(true, false), (false, true), (true, true), (false, false)]
            {
                let times = [0, 1, -1, i64::MIN, i64::MAX].map(|at| Place {
                    at,
                    order: 7,
                    id: None,
                });
                let ids = ["a", "~~", "a b%", "é~1", "0190-7"];
                let ids = ids.map(|id| Place {
                    at: 0,
                    order: 0,
                    id: id.parse().ok(),
                });
                let places = match order {
                    Order::Id => ids,
                    _ => times,
                };
                for place in places {
                    let cursor = Cursor {
                        order,
                        ascending,
                        backwards,
                        filter: 0x0a0b_0c0d,
                        place,
                    };
                    assert_eq!(cursor.to_string().parse(), Ok(cursor.clone()));
                    let json = serde_json::to_string(&cursor).unwrap();
                    assert_eq!(serde_json::from_str::<Cursor>(&json).unwrap(), cursor);
                }
            }
        }
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
        for text in [
            "",
            "s",
            "é",
            "szn",
            "szn1",
            "szn000000001",
            "szn000000001-",
            "szn000000001-g",
            "szn0000000g1-1",
            "xzn000000001-1",
            "sxn000000001-1",
            "szx000000001-1",
            "12",
            "izn",
            "izn00000000",
            "izn00000000~",
            "izn00000000~zz",
            "izn00000000~ff",
        ] {
            let refused = text.parse::<Cursor>().unwrap_err();
            assert_eq!(refused.field(), "cursor", "{text}");
        }
    }
}
