// Tensors that come from Python. This is the only place where the address of one is taken, and only after its type, device,
// layout and shape were checked: whatever is called, and however, nothing is read or written out of bounds.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

namespace transher {

namespace nb = nanobind;

using Given = nb::handle;                 // a tensor, or a tuple of them
using Maybe = std::optional<nb::handle>;  // a tensor, or None

// What is asked of torch, looked up once. Going through torch's own attributes takes some 0.2 microseconds a tensor, a
// fraction of what any exchange protocol takes. Never freed: the interpreter may end first.
struct Torch {
    PyObject* tensor = keep(nb::module_::import_("torch").attr("Tensor"));
    PyObject* float32 = type("float32");
    PyObject* int64 = type("int64");
    PyObject* int32 = type("int32");
    PyObject* boolean = type("bool");
    PyObject *dtype = word("dtype"), *is_cpu = word("is_cpu"), *shape = word("shape");
    PyObject *is_contiguous = word("is_contiguous"), *data_ptr = word("data_ptr");

    static const Torch& get() {
        static const Torch* torch = new Torch;
        return *torch;
    }

  private:
    static PyObject* keep(nb::object object) { return object.release().ptr(); }
    static PyObject* type(const char* name) { return keep(nb::module_::import_("torch").attr(name)); }
    static PyObject* word(const char* name) { return PyUnicode_InternFromString(name); }
};

template <class T>
struct Element;
template <>
struct Element<float> {
    static PyObject* type() { return Torch::get().float32; }
};
template <>
struct Element<std::int64_t> {
    static PyObject* type() { return Torch::get().int64; }
};
template <>
struct Element<std::int32_t> {
    static PyObject* type() { return Torch::get().int32; }
};
template <>
struct Element<unsigned char> {
    static PyObject* type() { return Torch::get().boolean; }
};

// The arguments of one call. Shapes are written as letters, "Bk": a letter has one size within a call, which the first
// tensor that has it gives. Sizes are asked for by letter.
class Call {
  public:
    explicit Call(const char* function) : function_(function) {
        for (long& size : sizes_) size = unknown;
    }

    // The address of a contiguous tensor on the CPU, of elements T and of this shape.
    template <class T = float>
    T* tensor(const char* name, Given given, const char* shape) {
        return reinterpret_cast<T*>(address(name, given, Element<T>::type(), shape));
    }

    // Likewise, or null for None.
    template <class T = float>
    T* optional(const char* name, Maybe given, const char* shape) {
        return given ? tensor<T>(name, *given, shape) : nullptr;
    }

    // One of the `count` tensors of a tuple.
    Given member(const char* name, Given tuple, long count, long which) const {
        if (!PyTuple_Check(tuple.ptr()) || PyTuple_Size(tuple.ptr()) != count)
            type_error(std::string(name) + " must be a tuple of " + std::to_string(count) + " tensors");
        return PyTuple_GetItem(tuple.ptr(), which);
    }

    // The address of int64 row numbers, each at least 0 and less than `bound`.
    const std::int64_t* rows(const char* name, Given given, const char* shape, long bound) {
        const std::int64_t* ids = tensor<std::int64_t>(name, given, shape);
        long count = 1;
        for (const char* letter = shape; *letter; ++letter) count *= (*this)[*letter];
        bool fits = true;  // one pass without a branch, then look for the culprit
        for (long i = 0; i < count; ++i) fits &= ids[i] >= 0 && ids[i] < bound;
        for (long i = 0; !fits && i < count; ++i)
            if (ids[i] < 0 || ids[i] >= bound)
                throw nb::index_error(text(std::string(name) + " has index " + std::to_string(ids[i]) + " of a table of " +
                                           std::to_string(bound) + " rows")
                                          .c_str());
        return ids;
    }
    const std::int64_t* rows(const char* name, Maybe given, const char* shape, long bound) {
        return given ? rows(name, *given, shape, bound) : nullptr;
    }

    // The size that a letter stands for, once a tensor has given it.
    long operator[](char letter) const {
        const long size = sizes_[static_cast<unsigned char>(letter)];
        if (size == unknown) throw std::logic_error(text(std::string("no size yet for ") + letter));
        return size;
    }
    void set(char letter, long size) { sizes_[static_cast<unsigned char>(letter)] = size; }

    // A number within its bounds, both included.
    long within(const char* name, long number, long least, long most = std::numeric_limits<long>::max()) const {
        if (number < least || number > most)
            value_error(std::string(name) + " is " + std::to_string(number) + " and must be at least " + std::to_string(least) +
                        (most == std::numeric_limits<long>::max() ? "" : ", at most " + std::to_string(most)));
        return number;
    }
    int threads(long number) const { return static_cast<int>(within("threads", number, 1, 4096)); }

    [[noreturn]] void value_error(const std::string& what) const { throw nb::value_error(text(what).c_str()); }
    [[noreturn]] void type_error(const std::string& what) const { throw nb::type_error(text(what).c_str()); }

  private:
    static constexpr long unknown = -1;
    const char* function_;
    long sizes_[128];

    std::string text(const std::string& what) const { return std::string(function_) + ": " + what; }

    void* address(const char* name, Given given, PyObject* type, const char* shape) {
        const Torch& torch = Torch::get();
        PyObject* object = given.ptr();
        if (!PyType_IsSubtype(Py_TYPE(object), reinterpret_cast<PyTypeObject*>(torch.tensor)))
            type_error(std::string(name) + " must be a tensor, not " + nb::cast<std::string>(nb::str(given.type())));
        nb::object found = attribute(object, torch.dtype);
        if (found.ptr() != type)
            type_error(std::string(name) + " must be " + nb::cast<std::string>(nb::str(nb::handle(type))) + ", not " +
                       nb::cast<std::string>(nb::str(found)));
        if (attribute(object, torch.is_cpu).ptr() != Py_True) value_error(std::string(name) + " must lie on the CPU");
        if (!fits(attribute(object, torch.shape), shape)) value_error(name + wrong_shape(object, shape));
        if (call(object, torch.is_contiguous).ptr() != Py_True) value_error(std::string(name) + " must be contiguous");
        return PyLong_AsVoidPtr(call(object, torch.data_ptr).ptr());
    }

    bool fits(nb::object sizes, const char* shape) {
        long ndim = PyTuple_Size(sizes.ptr());
        for (long i = 0; i < ndim; ++i) {
            if (!shape[i]) return false;
            long& size = sizes_[static_cast<unsigned char>(shape[i])];
            long here = PyLong_AsLong(PyTuple_GetItem(sizes.ptr(), i));
            if (size == unknown) size = here;
            if (size != here) return false;
        }
        return !shape[ndim];
    }

    std::string wrong_shape(PyObject* object, const char* shape) const {
        std::string wanted, known;
        for (const char* letter = shape; *letter; ++letter) {
            wanted += (wanted.empty() ? "" : ", ") + std::string(1, *letter);
            const long size = sizes_[static_cast<unsigned char>(*letter)];
            if (size != unknown)
                known += (known.empty() ? ", with " : ", ") + std::string(1, *letter) + " = " + std::to_string(size);
        }
        nb::object sizes = nb::steal(PySequence_Tuple(attribute(object, Torch::get().shape).ptr()));
        std::string given;
        for (nb::handle size : sizes) given += (given.empty() ? "" : ", ") + nb::cast<std::string>(nb::str(size));
        return " has shape (" + given + ") and must be (" + wanted + ")" + known;
    }

    static nb::object attribute(PyObject* object, PyObject* name) {
        PyObject* found = PyObject_GetAttr(object, name);
        if (!found) throw nb::python_error();
        return nb::steal(found);
    }
    static nb::object call(PyObject* object, PyObject* method) {
        PyObject* found = PyObject_VectorcallMethod(method, &object, 1, nullptr);
        if (!found) throw nb::python_error();
        return nb::steal(found);
    }
};

}  // namespace transher
