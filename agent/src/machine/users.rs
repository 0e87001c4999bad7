//! Who a program or a file operation runs as, from the machine's own `/etc/passwd` and `/etc/group`.

use serde_json::{Value, json};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;

const FILE_LIMIT_BYTES: u64 = 4 << 20;

/// The largest id; the one above means "no change" to the kernel.
const HIGHEST_ID: u32 = u32::MAX - 1;

/// An identity, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups, the primary among them.
    pub groups: Vec<u32>,
    /// Name, where `/etc/passwd` has one.
    pub name: Option<String>,
    /// Home folder; `/` for ids without an entry.
    pub home: String,
    /// Login shell, where there is one.
    pub shell: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Account {
    name: String,
    uid: u32,
    gid: u32,
    home: String,
    shell: String,
}

/// The user a request names: null is the agent's own (root in a machine), else `name`, `uid` or `uid:gid`.
/// Anything that is not exactly one of these is refused with what was received.
pub fn resolve(wanted: Option<&str>) -> Result<User, String> {
    // SAFETY: takes no argument.
    let group = unsafe { libc::getegid() };
    resolve_in(wanted, (own_id(), group), &read("/etc/passwd"), &read("/etc/group"))
}

/// Accounts of the machine for the start's reply, at most 256: `[{"name","uid","gid","home","shell"}]`.
pub fn listed() -> Value {
    let accounts = accounts(&read("/etc/passwd"));
    let entry = |account: &Account| json!({"name": account.name, "uid": account.uid, "gid": account.gid, "home": account.home, "shell": account.shell});
    accounts.iter().take(256).map(entry).collect()
}

/// The agent's own uid.
pub fn own_id() -> u32 {
    // SAFETY: takes no argument.
    unsafe { libc::geteuid() }
}

fn resolve_in(wanted: Option<&str>, own: (u32, u32), passwd: &str, group: &str) -> Result<User, String> {
    let accounts = accounts(passwd);
    let of_id = |uid: u32| accounts.iter().find(|account| account.uid == uid);
    let Some(text) = wanted else {
        // Root has the groups of its account; another user can only stay who it is.
        let (uid, gid) = own;
        return Ok(with_groups(uid, of_id(uid), Some(gid).filter(|_| uid != 0), group));
    };
    if let Some((uid, gid)) = text.split_once(':') {
        let ids = number(uid).zip(number(gid));
        let (uid, gid) = ids.ok_or_else(|| refused(text))?;
        return Ok(with_groups(uid, of_id(uid), Some(gid), group));
    }
    if let Some(uid) = number(text) {
        return Ok(with_groups(uid, of_id(uid), None, group));
    }
    if !is_name(text) {
        return Err(refused(text));
    }
    let account = accounts.iter().find(|account| account.name == text);
    let account = account.ok_or_else(|| format!("user {text:?} is not in the machine's /etc/passwd"))?;
    Ok(with_groups(account.uid, Some(account), None, group))
}

fn refused(text: &str) -> String {
    format!("user is {text:?}; expected a name of /etc/passwd, a decimal uid, or uid:gid")
}

fn with_groups(uid: u32, account: Option<&Account>, gid: Option<u32>, group: &str) -> User {
    // An id without an entry gets the group of its number: root's group would be a gift.
    let primary = gid.or(account.map(|account| account.gid)).unwrap_or(uid);
    let mut groups = vec![primary];
    if let (Some(account), None) = (account, gid) {
        groups.extend(memberships(&account.name, group).into_iter().filter(|&id| id != primary));
    }
    // The kernel takes 65,536; no real group file comes near.
    groups.truncate(1024);
    let home = account.map(|account| account.home.as_str()).filter(|home| home.starts_with('/'));
    User {
        uid,
        gid: primary,
        groups,
        name: account.map(|account| account.name.clone()),
        home: home.unwrap_or("/").to_owned(),
        shell: account.map(|account| account.shell.clone()).filter(|shell| !shell.is_empty()),
    }
}

/// Decimal digits without sign, space or leading zero.
fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let plain = digits && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|&id| plain && id <= HIGHEST_ID)
}

fn is_name(text: &str) -> bool {
    let first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let rest = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let body = text.strip_suffix('$').unwrap_or(text);
    let bytes = body.as_bytes();
    text.len() <= 32 && bytes.first().is_some_and(|&byte| first(byte)) && bytes.iter().all(|&byte| rest(byte))
}

fn accounts(passwd: &str) -> Vec<Account> {
    let account = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, gid, _, home, shell] = fields[..] else { return None };
        let (uid, gid) = number(uid).zip(number(gid))?;
        is_name(name).then(|| Account { name: name.into(), uid, gid, home: home.into(), shell: shell.into() })
    };
    passwd.lines().filter_map(account).collect()
}

fn memberships(name: &str, group: &str) -> Vec<u32> {
    let id = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let [_, _, gid, members] = fields[..] else { return None };
        members.split(',').any(|member| member == name).then(|| number(gid)).flatten()
    };
    let mut ids: Vec<u32> = Vec::new();
    for gid in group.lines().filter_map(id) {
        if !ids.contains(&gid) {
            ids.push(gid);
        }
    }
    ids
}

/// Non-blocking and of regular files only: the machine's root may have put a FIFO there.
fn read(path: &str) -> String {
    let mut text = Vec::new();
    let opened = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    if let Ok(file) = opened
        && file.metadata().is_ok_and(|metadata| metadata.is_file())
    {
        let _ = file.take(FILE_LIMIT_BYTES).read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nann:x:1000:1000::/home/ann:/bin/sh\n\
        evil:x:0x0:0::/:/bin/sh\nbroken:x:7\nlow:x:007:7::/:/bin/sh\n";
    const GROUP: &str = "root:x:0:\ndocker:x:990:bob,ann\nann:x:1000:ann\nvideo:x:44:ann\nodd:x:+5:ann\n";

    fn of(text: &str) -> Result<User, String> {
        resolve_in(Some(text), (0, 0), PASSWD, GROUP)
    }

    #[test]
    fn odd_users_are_refused() {
        let odd = ["", "0x0", "+0", "-1", "00", "01", " 0", "0 ", "1000:", ":1000", "1000:+0", "1:2:3", "4294967295"];
        let more = ["4294967296", "ann:1000", "an n", "ann\n", "../root", "0\0", "１", "evil", "broken", "low"];
        for text in odd.iter().chain(&more) {
            assert!(of(text).is_err(), "{text:?} was taken");
        }
    }

    #[test]
    fn a_name_brings_its_groups_its_home_and_its_shell() {
        let ann = of("ann").expect("known");
        assert_eq!((ann.uid, ann.gid, ann.groups), (1000, 1000, vec![1000, 990, 44]));
        assert_eq!((ann.home.as_str(), ann.shell.as_deref()), ("/home/ann", Some("/bin/sh")));
        assert_eq!(of("1000"), of("ann"));
    }

    #[test]
    fn numbers_without_an_entry_get_no_group_of_others() {
        let user = of("4294967294").expect("the highest id");
        assert_eq!((user.gid, user.groups, user.home.as_str()), (u32::MAX - 1, vec![u32::MAX - 1], "/"));
        let user = of("1000:5").expect("a pair");
        assert_eq!((user.uid, user.gid, user.groups), (1000, 5, vec![5]));
    }
}
