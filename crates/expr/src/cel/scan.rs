//! A look at the tokens before the parser runs.
//!
//! The parser and everything that walks its tree are recursive, and a stack overflow would end the
//! process. A text that could make the tree deeper than [`MAX_DEPTH`] is refused here, by counting
//! on the safe side: what nests (brackets, ternaries) and what chains to the left (operators,
//! member access, calls) adds one level each; siblings (list items, arguments, terms of `&&` and
//! `||`, which the parser balances) do not.

use ::cel::parser::pratt_parser::{Lexer, TokenKind};

use super::error::CompileError;

/// The longest expression, in bytes.
pub const MAX_TEXT: usize = 4096;
/// The deepest tree an expression may have.
pub const MAX_DEPTH: usize = 160;
/// The deepest nesting of brackets: each level costs the parser many stack frames.
pub(super) const MAX_BRACKETS: usize = 48;
/// The same for the parser, which counts the expression as a whole too.
pub(super) const PARSER_RECURSION: u16 = MAX_BRACKETS as u16 + 1;

/// What the tokens between one opening bracket and its end have added so far.
#[derive(Default, Clone, Copy)]
struct Level {
    chain: usize,
    ternaries: usize,
    logic: usize,
}

impl Level {
    fn depth(self) -> usize {
        // `&&` and `||` chains become balanced trees, possibly one inside the other.
        let balanced = 2 * (usize::BITS - self.logic.leading_zeros()) as usize;
        1 + self.chain + self.ternaries + balanced
    }
}

/// Refuses blank, too long and too deep texts; returns the text without blanks around it.
pub(super) fn admit(text: &str) -> Result<&str, CompileError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(CompileError::Blank);
    }
    if text.len() > MAX_TEXT {
        return Err(CompileError::TooLong {
            length: text.len(),
            limit: MAX_TEXT,
        });
    }
    let too_deep = Err(CompileError::TooDeep { limit: MAX_DEPTH });
    let mut lexer = Lexer::new(text);
    let mut outer: Vec<Level> = Vec::new();
    let mut outer_depth = 0;
    let mut level = Level::default();
    loop {
        match lexer.lex().kind {
            TokenKind::TokEnd => return Ok(text),
            TokenKind::TokLeftParen | TokenKind::TokLeftBracket | TokenKind::TokLeftBrace => {
                level.chain += 1;
                outer_depth += level.depth();
                outer.push(level);
                level = Level::default();
                if outer.len() > MAX_BRACKETS {
                    return too_deep;
                }
            }
            TokenKind::TokRightParen | TokenKind::TokRightBracket | TokenKind::TokRightBrace => {
                // An unmatched bracket is a syntax error; the parser says where.
                level = outer.pop().unwrap_or_default();
                outer_depth -= level.depth().min(outer_depth);
            }
            TokenKind::TokComma => level = Level::default(),
            TokenKind::TokQuestion => {
                level.ternaries += 1;
                level.chain = 0;
            }
            TokenKind::TokColon => level.chain = 0,
            TokenKind::TokLogicalAnd | TokenKind::TokLogicalOr => {
                level.logic += 1;
                level.chain = 0;
            }
            TokenKind::TokDot
            | TokenKind::TokMinus
            | TokenKind::TokPlus
            | TokenKind::TokAsterisk
            | TokenKind::TokSlash
            | TokenKind::TokPercent
            | TokenKind::TokExclamation
            | TokenKind::TokEqualEqual
            | TokenKind::TokExclamationEqual
            | TokenKind::TokLess
            | TokenKind::TokLessEqual
            | TokenKind::TokGreater
            | TokenKind::TokGreaterEqual
            | TokenKind::TokIn => level.chain += 1,
            _ => {}
        }
        if outer_depth + level.depth() > MAX_DEPTH {
            return too_deep;
        }
    }
}
