# weft_layer(NAME folder USES layers...): one folder of src/ as an object library whose include path
# holds only the public headers, itself, and the layers it names: a wrong include does not compile.
set(WEFT_LAYER_ROOT ${PROJECT_BINARY_DIR}/layers)
set(WEFT_LAYERS "" CACHE INTERNAL "")

function(weft_layer name)
    cmake_parse_arguments(ARG "" "" "USES;LIBS" ${ARGN})
    file(MAKE_DIRECTORY ${WEFT_LAYER_ROOT}/${name})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/${name} ${WEFT_LAYER_ROOT}/${name}/${name} SYMBOLIC)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.c)
    list(FILTER sources EXCLUDE REGEX "/cpu/(isa|amx)/") # compiled once per instruction set (WeftIsa.cmake)
    add_library(weft_${name} OBJECT ${sources})
    target_link_libraries(weft_${name} PRIVATE weft_flags ${ARG_LIBS})
    target_include_directories(weft_${name} PRIVATE ${PROJECT_SOURCE_DIR}/include)
    foreach(layer ${name} ${ARG_USES})
        target_include_directories(weft_${name} PRIVATE ${WEFT_LAYER_ROOT}/${layer})
    endforeach()
    set(WEFT_LAYERS ${WEFT_LAYERS} ${name} CACHE INTERNAL "")
endfunction()
