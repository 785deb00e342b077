"""The only room with SQL, cursors and row locks; returns core types or plain rows, decides nothing."""
