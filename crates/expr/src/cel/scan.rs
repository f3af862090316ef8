//! A look at the tokens before the parser runs.
//!
//! The parser and everything that walks its tree are recursive, and a stack overflow would end the
//! process. A text that could make the tree deeper than [`MAX_DEPTH`] is refused here, by counting
//! on the safe side: what nests (brackets, ternaries, signs) and what chains to the left
//! (operators, members, calls) adds one level each; siblings (list items, arguments, terms of `&&` and
//! `||`, which the parser balances) do not.

use ::cel::parser::pratt_parser::{Lexer, TokenKind};

use super::error::CompileError;

/// The longest expression, in bytes.
pub const MAX_TEXT: usize = 4096;
/// The deepest tree an expression may have.
pub const MAX_DEPTH: usize = 100;
/// The deepest nesting of brackets: each level costs the parser many stack frames.
pub(super) const MAX_BRACKETS: u16 = 40;
/// The same for the parser, which counts the expression as a whole too.
pub(super) const PARSER_RECURSION: u16 = MAX_BRACKETS + 1;

/// What the tokens since the last opening bracket or comma have added so far.
#[derive(Default, Clone, Copy)]
struct Level {
    /// Operators with two operands: a chain leans to the left, its first operand is the deepest.
    binary: usize,
    /// Signs before the current operand, members and calls after it.
    operand: usize,
    /// The most any operand had.
    longest: usize,
    ternaries: usize,
    /// `&&` and `||`.
    logic: usize,
}

impl Level {
    fn depth(self) -> usize {
        // `&&` and `||` chains become balanced trees, possibly one inside the other.
        let balanced = 2 * (usize::BITS - self.logic.leading_zeros()) as usize;
        1 + self.binary + self.longest + self.ternaries + balanced
    }

    fn lengthen(&mut self) {
        self.operand += 1;
        self.longest = self.longest.max(self.operand);
    }

    /// The next operand begins.
    fn next_operand(&mut self) {
        self.operand = 0;
    }

    /// The next term begins, beside what was before and not around it.
    fn next_term(&mut self) {
        self.binary = 0;
        self.operand = 0;
        self.longest = 0;
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
    let mut after_operand = false;
    loop {
        let kind = lexer.lex().kind;
        match kind {
            TokenKind::TokEnd => return Ok(text),
            TokenKind::TokWhitespace | TokenKind::TokComment => continue,
            TokenKind::TokLeftParen | TokenKind::TokLeftBracket | TokenKind::TokLeftBrace => {
                level.lengthen();
                outer_depth += level.depth();
                outer.push(level);
                level = Level::default();
                if outer.len() > usize::from(MAX_BRACKETS) {
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
                level.next_term();
            }
            TokenKind::TokColon => level.next_term(),
            TokenKind::TokLogicalAnd | TokenKind::TokLogicalOr => {
                level.logic += 1;
                level.next_term();
            }
            TokenKind::TokDot | TokenKind::TokExclamation => level.lengthen(),
            // A sign, unless an operand is before it.
            TokenKind::TokMinus if !after_operand => level.lengthen(),
            TokenKind::TokMinus
            | TokenKind::TokPlus
            | TokenKind::TokAsterisk
            | TokenKind::TokSlash
            | TokenKind::TokPercent
            | TokenKind::TokEqualEqual
            | TokenKind::TokExclamationEqual
            | TokenKind::TokLess
            | TokenKind::TokLessEqual
            | TokenKind::TokGreater
            | TokenKind::TokGreaterEqual
            | TokenKind::TokIn => {
                level.binary += 1;
                level.next_operand();
            }
            _ => {}
        }
        if outer_depth + level.depth() > MAX_DEPTH {
            return too_deep;
        }
        after_operand = ends_operand(kind);
    }
}

/// Whether an operand can end with this token.
fn ends_operand(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::TokIdent
            | TokenKind::TokReservedWord
            | TokenKind::TokNull
            | TokenKind::TokTrue
            | TokenKind::TokFalse
            | TokenKind::TokInt
            | TokenKind::TokUint
            | TokenKind::TokFloat
            | TokenKind::TokString
            | TokenKind::TokBytes
            | TokenKind::TokRightParen
            | TokenKind::TokRightBracket
            | TokenKind::TokRightBrace
    )
}
