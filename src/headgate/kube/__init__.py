"""The vocabulary that all engines share: quantities, labels, selectors, taints, times, conditions, names and errors.

Objects are wire dictionaries. A problem with an object is a value (``field_errors.py``), not an exception. Every other
package may import this one; it imports none of them. ``apimachinery/`` has what a kind needs in order to be served.
"""
